//! The files that contain a literal, a string of bytes.
//!
//! Invariant: no file with the literal is left out. The answer is known for files that lie in one segment and have no edits
//! pending, unknown for the others. Each segment answers by the cheapest of the access paths below: the steps of an automaton in
//! each rule are computed once, so nothing is expanded.

use std::sync::Arc;

use zipfdb_kernels::{ByteReading, GrammarView, Literal, Reading, files_found, readings};

use super::access_path::{AccessPath, PartitionOperation, PathName, Run, answer};
use super::corpus_view::CorpusView;
use super::placement::PlacementPlan;
use crate::Result;
use crate::runtime::interrupt::check;
use crate::segment::cost::{SYMBOL_COST, TOKEN_READING_COST};
use crate::segment::{SegmentView, StructureKind};

/// For each file of a segment whether its bytes there contain a literal.
pub(crate) struct LiteralFiles;

impl PartitionOperation for LiteralFiles {
    type Question<'a> = &'a Literal;
    type Answer = Vec<bool>;

    const PATHS: &'static [AccessPath<LiteralFiles>] = &[
        AccessPath {
            name: PathName::RootScan,
            needs: &[StructureKind::Bodies],
            cost: |_, segment| {
                let tables = tables_cost(segment) / segment.thread_count();
                Some(tables + segment.scan_cost(StructureKind::Grammar)?)
            },
            run: |literal, segment, run| {
                let readings = readings_of(literal, segment, segment.bodies_view()?)?;
                let mut found = vec![false; segment.files()?.len()];
                // The joined readings of a root that was cut.
                let mut cut: Option<(u32, ByteReading)> = None;
                let answers = segment.scan_roots(run.stop, |fragment| {
                    if fragment.is_whole {
                        let is_found = ByteReading::finds(&readings, fragment.symbols);
                        return is_found.then_some(None);
                    }
                    let symbols = fragment.symbols.iter();
                    let each = symbols.map(|&symbol| readings[symbol as usize]);
                    Some(Some(each.fold(ByteReading::NOTHING, ByteReading::then)))
                })?;
                for (file, answer) in answers {
                    let Some(more) = answer else {
                        found[file as usize] = true;
                        continue;
                    };
                    let before = cut.filter(|(last, _)| *last == file);
                    let reading = before.map_or(more, |(_, reading)| reading.then(more));
                    found[file as usize] = reading.step(0).1;
                    cut = Some((file, reading));
                }
                Ok(found)
            },
        },
        AccessPath {
            name: PathName::LocalTables,
            needs: &[StructureKind::Grammar],
            cost: |_, segment| {
                let roots = segment.size().0 as f64 * SYMBOL_COST;
                Some((tables_cost(segment) + roots) / segment.thread_count())
            },
            run: |literal, segment, _| {
                let view = segment.view()?;
                Ok(files_found(view, &readings_of(literal, segment, view)?))
            },
        },
    ];
}

/// The cost of the readings of all symbols, in nanoseconds of one thread.
fn tables_cost(segment: &SegmentView) -> f64 {
    let (symbols, tokens) = segment.size();
    tokens as f64 * TOKEN_READING_COST + symbols as f64 * SYMBOL_COST
}

fn readings_of(
    literal: &Literal,
    segment: &SegmentView,
    view: GrammarView<'_>,
) -> Result<Vec<ByteReading>> {
    let dictionary = segment.dictionary()?;
    Ok(readings(view, |token| {
        literal.reading(dictionary.token(token))
    }))
}

impl CorpusView {
    /// Plans [`CorpusView::files_with`].
    ///
    /// # Errors
    /// If a segment is damaged.
    pub(crate) fn plan_literal(&self, literal: &Literal) -> Result<PlacementPlan<'_>> {
        self.stored().plan_on_cpu::<LiteralFiles>(&literal, None)
    }

    /// For each file whether it has a literal; none where that is not known.
    ///
    /// # Errors
    /// If a segment is damaged, or the run must end.
    pub(crate) fn files_with(
        &self,
        literal: &Arc<Literal>,
        run: Run<'_>,
    ) -> Result<Vec<Option<bool>>> {
        let stored = self.stored();
        let mut found = Vec::with_capacity(stored.segments().len());
        for index in 0..stored.segments().len() {
            check(run.stop)?;
            found.push(answer::<LiteralFiles>(
                &&**literal,
                &stored.segment_at(index),
                run,
            )?);
        }
        let files = (0..self.files().len()).map(|file| {
            let part = self.only_part(file)?;
            Some(found[part.segment as usize][part.file as usize])
        });
        Ok(files.collect())
    }
}
