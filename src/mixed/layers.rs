//! A file as its operations leave it, for questions about states between them.
//!
//! The invariant: the layers of a state one on the other make the text that all edits one after the other make. Each rests on
//! a state before it, so that a state costs what was edited since the one below, not all that was: of a file with many edits
//! a few layers are kept, the lower the larger, and shared by all states after them.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use zipfdb_storage::Tokenizer;

use super::Teller;
use crate::Result;
use crate::overlay::{EditedFile, Piece, Regions};
use crate::snapshot::{EditedText, StoredView};

/// Layers of a state.
const LAYERS: usize = 3;

/// A layer of so many edits becomes the base of another: of those in the middle and of those on top.
const MIDDLE_EDITS: usize = 2048;
const TOP_EDITS: usize = 32;

/// A state of a file, or one that others rest on.
pub(super) struct Layer {
    below: Option<Arc<Layer>>,
    /// Its pieces are stretches of what is below.
    file: Arc<EditedFile>,
    /// How many layers are below.
    depth: usize,
    /// Its words, once they are told, if others rest on it.
    text: OnceLock<Arc<EditedText>>,
}

/// A file while its operations are gone through.
pub(super) struct Layers {
    /// The pieces of each are stretches of what is below, and have all edits since.
    open: Vec<Open>,
    /// Those that states rest on, in the order in which they were made.
    bases: Vec<Arc<Layer>>,
}

struct Open {
    below: Option<Arc<Layer>>,
    file: EditedFile,
    edits: usize,
}

impl Open {
    /// A copy that stays as it is.
    fn layer(&self, depth: usize) -> Arc<Layer> {
        Arc::new(Layer {
            below: self.below.clone(),
            file: Arc::new(self.file.clone()),
            depth,
            text: OnceLock::new(),
        })
    }
}

impl Layers {
    /// Of a file without edits.
    pub(super) fn new(file: EditedFile) -> Layers {
        Layers {
            open: vec![Open {
                below: None,
                file,
                edits: 0,
            }],
            bases: Vec::new(),
        }
    }

    /// Of a file that was edited before.
    pub(super) fn edited(file: &Arc<EditedFile>) -> Layers {
        let mut layers = Layers::new(EditedFile::clone(file));
        let base = Layer {
            below: None,
            file: file.clone(),
            depth: 0,
            text: OnceLock::new(),
        };
        layers.rest_on(Arc::new(base));
        layers
    }

    /// Has edits from now on made to `base` too.
    fn rest_on(&mut self, base: Arc<Layer>) {
        self.bases.push(base.clone());
        self.open.push(Open {
            file: EditedFile::stored(base.file.pieces.bytes()),
            below: Some(base),
            edits: 0,
        });
    }

    /// How many bytes the text has.
    pub(super) fn bytes(&self) -> u64 {
        self.open[0].file.pieces.bytes()
    }

    /// Inserts a text before a byte, of which there are so many.
    pub(super) fn insert(&mut self, offset: u64, text: &Bytes) {
        for open in &mut self.open {
            open.file.pieces.insert(offset, text.clone());
            open.edits += 1;
        }
    }

    /// Inserts texts of some edits, each before a byte that there is now; places ascend.
    pub(super) fn insert_many(&mut self, texts: Vec<(u64, Bytes)>, edits: usize) {
        for open in &mut self.open {
            open.file.pieces.insert_many(texts.clone());
            open.edits += edits;
        }
    }

    /// What the file is now.
    pub(super) fn state(&mut self) -> Arc<Layer> {
        let depth = self.open.len() - 1;
        if self.open[depth].edits >= TOP_EDITS {
            // The one on top becomes a base, unless there are layers enough: then one below is made anew, with its edits.
            let kept = match self.open.len() {
                LAYERS if self.open[1].edits >= MIDDLE_EDITS => 1,
                LAYERS => LAYERS - 1,
                open => open,
            };
            self.open.truncate(kept);
            self.rest_on(self.open[kept - 1].layer(kept - 1));
        }
        let depth = self.open.len() - 1;
        match &self.open[depth] {
            Open {
                below: Some(below),
                edits: 0,
                ..
            } => below.clone(),
            open => open.layer(depth),
        }
    }

    /// The file with all edits, none if there were none; and what states rest on.
    pub(super) fn finish(mut self) -> (Option<EditedFile>, Vec<Arc<Layer>>) {
        let Open { file, edits, .. } = self.open.swap_remove(0);
        ((edits > 0).then_some(file), self.bases)
    }
}

impl Layer {
    /// Whether some of the text is stored.
    pub(super) fn is_stored(&self) -> bool {
        match &self.below {
            None => self.file.is_stored,
            Some(below) => below.is_stored(),
        }
    }

    /// What it rests on.
    pub(super) fn below(&self) -> Option<&Arc<Layer>> {
        self.below.as_ref()
    }

    /// The pieces of bytes `offset..offset + length`, as far as the text goes.
    pub(super) fn slice(&self, offset: u64, length: u64) -> Vec<Piece> {
        let pieces = self.file.slice(offset, length);
        let Some(below) = &self.below else {
            return pieces;
        };
        let of_below = |piece: Piece| match piece {
            Piece::Stored(range) => below.slice(range.start, range.end - range.start),
            inserted => vec![inserted],
        };
        pieces.into_iter().flat_map(of_below).collect()
    }

    /// Tells its words. Work: as for the edits since what is below, whose words are told first, but for those in `earlier`, of
    /// an earlier state that rests on the same.
    ///
    /// # Errors
    /// If the segment of the file is damaged.
    pub(super) fn tell(
        &self,
        view: &Arc<StoredView>,
        name: &str,
        tokenizer: Tokenizer,
        earlier: Option<&Arc<Regions>>,
    ) -> Result<Arc<EditedText>> {
        if let Some(text) = self.text.get() {
            return Ok(text.clone());
        }
        let file = self.file.clone();
        Ok(Arc::new(match &self.below {
            None => EditedText::new(view.clone(), name, file, tokenizer, earlier)?,
            Some(below) => {
                let below = below.tell(view, name, tokenizer, None)?;
                EditedText::on(below, name, file, tokenizer, earlier)?
            }
        }))
    }
}

/// Tells the words of what states rest on, in the order in which it was made: once for all states.
///
/// # Errors
/// If the segment of the file is damaged, or the run is over.
pub(super) fn tell_bases(bases: &[Arc<Layer>], teller: &mut Teller<'_>) -> Result<()> {
    let mut last: [Option<(Arc<Layer>, Arc<EditedText>)>; LAYERS] = Default::default();
    for base in bases {
        // Those above change while this one does not: each has an earlier one at its own depth.
        teller.last = last[base.depth].take();
        let text = teller.tell(base)?;
        last[base.depth] = teller.last.take();
        base.text.get_or_init(|| text);
    }
    Ok(())
}
