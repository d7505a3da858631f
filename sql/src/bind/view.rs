//! Views: a name for a SELECT, which is bound anew wherever it is read.
//!
//! Invariant: a view that is created could be read then, and depends on no parameter. A view can only read what was there before it,
//! but what it reads may be dropped and made anew, so views in views are bounded as well.

use super::blocks::{Blocks, BoundSelect};
use super::{Binder, ViewDefinition, is_corpus_name};
use crate::error::{Error, Hint, NameKind, Result, quote};
use crate::limits::NESTING_MAX;
use crate::parse::parse;
use crate::plan::Plan;
use crate::suggest::did_you_mean;
use crate::syntax::{Name, Select, StatementKind};

impl Binder<'_> {
    pub(super) fn find_view(&self, name: &str) -> Option<ViewDefinition> {
        let views = self.schema.views().into_iter();
        let mut views = views.filter(|view| self.views == 0 || !view.is_temporary);
        views.find(|view| view.name.eq_ignore_ascii_case(name))
    }

    pub(super) fn create_view(
        &self,
        name: &Name,
        view: ViewDefinition,
        if_not_exists: bool,
        query: &[Select],
        parameters: usize,
    ) -> Result<Plan> {
        if !is_corpus_name(&name.text) {
            return Err(Error::OutOfRange {
                at: self.source.at(name.at),
                what: "a view's name".to_owned(),
                bounds: "1 to 255 bytes without control characters and without spaces around it"
                    .to_owned(),
                found: quote(&name.text),
                hint: Hint::NONE,
            });
        }
        if let Some(corpus) = self.find_corpus(&name.text) {
            let message = format!("{} is a corpus already", quote(&corpus));
            return Err(self.conflict(name.at, message, Hint::NONE));
        }
        if let Some(existing) = self.find_view(&name.text)
            && !if_not_exists
        {
            let message = format!("view {} already exists", quote(&existing.name));
            let hint = Hint::new("`CREATE VIEW IF NOT EXISTS` leaves it as it is");
            return Err(self.conflict(name.at, message, hint));
        }
        if parameters > 0 {
            let hint = Hint::new("write the value, or filter what the view gives");
            return Err(self.conflict(name.at, "a view cannot have parameters", hint));
        }
        // What a lasting view reads must last as well.
        let binder = Binder {
            views: usize::from(!view.is_temporary),
            ..*self
        };
        binder.query(query)?;
        Ok(Plan::CreateView {
            name: view.name,
            is_temporary: view.is_temporary,
            if_not_exists,
            sql: view.sql,
        })
    }

    pub(super) fn drop_view(&self, name: &Name, if_exists: bool) -> Result<Plan> {
        match self.find_view(&name.text) {
            Some(view) => Ok(Plan::DropView {
                name: view.name,
                if_exists,
            }),
            None if if_exists => Ok(Plan::DropView {
                name: name.text.clone(),
                if_exists,
            }),
            None => {
                let views = self.schema.views();
                let names: Vec<&str> = views.iter().map(|view| view.name.as_str()).collect();
                let hint = match self.find_corpus(&name.text) {
                    Some(_) => Hint::new("it is a corpus: `DROP CORPUS` removes it"),
                    None if names.is_empty() => Hint::new("there are no views"),
                    None => did_you_mean(&name.text, &names, "views are"),
                };
                Err(self.no_such(name.at, NameKind::View, &name.text, hint))
            }
        }
    }

    /// Binds a view that FROM names. Errors in it are reported at the name.
    pub(super) fn view(
        &self,
        name: &Name,
        view: &ViewDefinition,
        blocks: &mut Blocks,
    ) -> Result<BoundSelect> {
        if self.views >= NESTING_MAX {
            return Err(Error::TooLarge {
                at: self.source.at(name.at),
                what: "the nesting of views",
                limit: NESTING_MAX as u64,
                hint: Hint::NONE,
            });
        }
        let wrong = |error: &Error| {
            let message = format!("view {} cannot be read: {error}", quote(&view.name));
            self.conflict(name.at, message, Hint::NONE)
        };
        let statements = parse(&view.sql).map_err(|error| wrong(&error))?;
        let statement = statements
            .first()
            .map(|statement| (statement, &statement.kind));
        let Some((statement, StatementKind::Select(selects))) = statement else {
            let message = format!("view {} is no SELECT", quote(&view.name));
            return Err(self.conflict(name.at, message, Hint::NONE));
        };
        let binder = Binder {
            source: &statement.source,
            schema: self.schema,
            parameters: &[],
            regexp_work: self.regexp_work,
            views: if view.is_temporary {
                self.views
            } else {
                self.views + 1
            },
        };
        let bound = binder
            .selects(selects, blocks)
            .map_err(|error| match error {
                // The place in the view would say nothing.
                Error::TooLarge {
                    what, limit, hint, ..
                } => Error::TooLarge {
                    at: self.source.at(name.at),
                    what,
                    limit,
                    hint,
                },
                error => wrong(&error),
            })?;
        let last = bound.into_iter().next_back();
        last.ok_or_else(|| self.conflict(name.at, "an empty view", Hint::NONE))
    }
}
