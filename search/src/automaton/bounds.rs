//! What a span's form alone decides: lengths, context, and words that every match has.

use crate::algebra::{Side, Span, Unit, WordTest};

/// Bounds of the number of words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lengths {
    /// At least.
    pub minimum: u64,
    /// At most; none without a bound.
    pub maximum: Option<u64>,
}

impl Lengths {
    /// The empty span's.
    const ZERO: Self = Self {
        minimum: 0,
        maximum: Some(0),
    };

    /// Whether all spans are of one length, so that no two with one start differ.
    pub fn is_fixed(self) -> bool {
        self.maximum == Some(self.minimum)
    }

    fn plus(self, other: Self) -> Self {
        Self {
            minimum: self.minimum.saturating_add(other.minimum),
            maximum: add(self.maximum, other.maximum),
        }
    }

    fn or(self, other: Self) -> Self {
        Self {
            minimum: self.minimum.min(other.minimum),
            maximum: larger(self.maximum, other.maximum),
        }
    }

    fn and(self, other: Self) -> Self {
        Self {
            minimum: self.minimum.max(other.minimum),
            maximum: [self.maximum, other.maximum].into_iter().flatten().min(),
        }
    }

    fn times(self, minimum: u32, maximum: Option<u32>) -> Self {
        let most = match (self.maximum, maximum) {
            (Some(0), _) => Some(0),
            (words, times) => words
                .zip(times)
                .map(|(words, times)| words.saturating_mul(times.into())),
        };
        Self {
            minimum: self.minimum.saturating_mul(minimum.into()),
            maximum: most,
        }
    }
}

/// Sum of bounds, where `None` is no bound.
fn add(left: Option<u64>, right: Option<u64>) -> Option<u64> {
    left.zip(right)
        .map(|(left, right)| left.saturating_add(right))
}

/// The larger bound.
fn larger(left: Option<u64>, right: Option<u64>) -> Option<u64> {
    left.zip(right).map(|(left, right)| left.max(right))
}

/// How many words outside a span decide whether it is in the set; none: any in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context {
    /// Words before its start.
    pub before: Option<u64>,
    /// Words from its end on.
    pub after: Option<u64>,
}

impl Context {
    const NONE: Self = Self {
        before: Some(0),
        after: Some(0),
    };

    fn or(self, other: Self) -> Self {
        Self {
            before: larger(self.before, other.before),
            after: larger(self.after, other.after),
        }
    }

    /// The context of what begins and ends at most this far outside.
    fn plus(self, before: Option<u64>, after: Option<u64>) -> Self {
        Self {
            before: add(self.before, before),
            after: add(self.after, after),
        }
    }
}

/// Tests of which every match has a word that passes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Anchor {
    /// The tests.
    pub tests: Vec<WordTest>,
    /// Words from the start of the match to that word, at least.
    pub from: u64,
    /// Words from the start of the match to that word, at most; none without a bound.
    pub to: Option<u64>,
    /// The sum of the costs of the tests.
    pub cost: u64,
}

impl Anchor {
    fn moved(mut self, by: Lengths) -> Self {
        self.from = self.from.saturating_add(by.minimum);
        self.to = add(self.to, by.maximum);
        self
    }

    /// One of both.
    fn or(mut self, other: Self) -> Self {
        for test in other.tests {
            if !self.tests.contains(&test) {
                self.tests.push(test);
            }
        }
        self.from = self.from.min(other.from);
        self.to = larger(self.to, other.to);
        self.cost = self.cost.saturating_add(other.cost);
        self
    }
}

/// The cheapest.
fn cheapest(anchors: impl IntoIterator<Item = Option<Anchor>>) -> Option<Anchor> {
    anchors
        .into_iter()
        .flatten()
        .min_by_key(|anchor| anchor.cost)
}

impl Span {
    /// Bounds of the words of the spans in the set.
    pub fn lengths(&self) -> Lengths {
        let one = Lengths {
            minimum: 1,
            maximum: Some(1),
        };
        let all = |spans: &[Self], join: fn(Lengths, Lengths) -> Lengths| {
            spans
                .iter()
                .map(Self::lengths)
                .reduce(join)
                .unwrap_or(Lengths::ZERO)
        };
        match self {
            Self::Empty | Self::Look { .. } | Self::UnitStart(_) | Self::UnitEnd(_) => {
                Lengths::ZERO
            }
            Self::Word(_) => one,
            Self::Sequence(spans) => all(spans, Lengths::plus),
            Self::Alternation(spans) => all(spans, Lengths::or),
            Self::Repeat {
                span,
                minimum,
                maximum,
            } => span.lengths().times(*minimum, *maximum),
            Self::Capture { span, .. }
            | Self::Within { span, .. }
            | Self::Meet { first: span, .. } => span.lengths(),
            Self::Unit(unit) => Lengths {
                minimum: 1,
                maximum: match unit {
                    Unit::Window(words) => Some((*words).into()),
                    _ => None,
                },
            },
            Self::Complement(_) => Lengths {
                minimum: 1,
                maximum: None,
            },
            Self::WithinWords { span, words } => span.lengths().and(Lengths {
                minimum: 0,
                maximum: Some((*words).into()),
            }),
            Self::Containing {
                span,
                content,
                is_negated,
            } => {
                let mut lengths = span.lengths();
                if !is_negated {
                    lengths.minimum = lengths.minimum.max(content.lengths().minimum);
                }
                lengths
            }
            Self::Slop { words, slop } => Lengths {
                minimum: words.len() as u64,
                maximum: Some(words.len() as u64 + u64::from(*slop)),
            },
            Self::Intersection(spans) => all(spans, Lengths::and),
            Self::Near {
                parts, distance, ..
            } => all(parts, Lengths::plus).plus(Lengths {
                minimum: 0,
                maximum: Some((*distance).into()),
            }),
        }
    }

    /// How many words outside a span decide whether it is in the set.
    pub fn context(&self) -> Context {
        let all = |spans: &[Self]| {
            spans
                .iter()
                .map(Self::context)
                .fold(Context::NONE, Context::or)
        };
        match self {
            Self::Slop { .. }
            | Self::Empty
            | Self::Word(_)
            | Self::UnitStart(_)
            | Self::UnitEnd(_)
            | Self::Unit(_) => Context::NONE,
            Self::Sequence(spans) | Self::Alternation(spans) | Self::Intersection(spans) => {
                all(spans)
            }
            Self::Near { parts, .. } => all(parts),
            Self::Repeat { span, .. }
            | Self::Capture { span, .. }
            | Self::WithinWords { span, .. }
            | Self::Complement(span) => span.context(),
            Self::Look { side, span, .. } => {
                let words = span.lengths().maximum;
                match side {
                    Side::Before => span.context().plus(words, Some(0)),
                    Side::After => span.context().plus(Some(0), words),
                }
            }
            Self::Within {
                span, container, ..
            } => {
                let words = match **container {
                    // Boundaries inside the span decide.
                    Self::Unit(_) => Some(0),
                    _ => container.lengths().maximum,
                };
                span.context().or(container.context().plus(words, words))
            }
            Self::Containing { span, content, .. } => span.context().or(content.context()),
            Self::Meet {
                first,
                second,
                left,
                right,
            } => {
                let before = (-i64::from(*left)).max(0).unsigned_abs();
                let after = i64::from(*right).max(0).unsigned_abs();
                let after = add(Some(after), second.lengths().maximum);
                first
                    .context()
                    .or(second.context().plus(Some(before), after))
            }
        }
    }

    /// The tests of least cost of which every match has a word that passes one, by the cost of each test: the number of words that
    /// pass it. None if no test of words is sure.
    pub fn anchor(&self, cost: &dyn Fn(&WordTest) -> u64) -> Option<Anchor> {
        match self {
            Self::Empty
            | Self::Word(WordTest::Any)
            | Self::Look { .. }
            | Self::UnitStart(_)
            | Self::UnitEnd(_)
            | Self::Unit(_)
            | Self::Complement(_) => None,
            Self::Word(test) => Some(Anchor {
                tests: vec![test.clone()],
                from: 0,
                to: Some(0),
                cost: cost(test),
            }),
            Self::Sequence(spans) => {
                let mut before = Lengths::ZERO;
                cheapest(spans.iter().map(|span| {
                    let anchor = span.anchor(cost).map(|anchor| anchor.moved(before));
                    before = before.plus(span.lengths());
                    anchor
                }))
            }
            Self::Alternation(spans) => {
                let anchors = spans.iter().map(|span| span.anchor(cost));
                anchors
                    .collect::<Option<Vec<_>>>()?
                    .into_iter()
                    .reduce(Anchor::or)
            }
            Self::Repeat { minimum: 0, .. } => None,
            Self::Repeat { span, .. }
            | Self::Capture { span, .. }
            | Self::Within { span, .. }
            | Self::WithinWords { span, .. }
            | Self::Containing {
                span,
                is_negated: true,
                ..
            }
            | Self::Meet { first: span, .. } => span.anchor(cost),
            Self::Containing { span, content, .. } => {
                let inside = Lengths {
                    minimum: 0,
                    maximum: span.lengths().maximum,
                };
                let content = content.anchor(cost).map(|anchor| anchor.moved(inside));
                cheapest([span.anchor(cost), content])
            }
            Self::Slop { words, .. } => {
                let inside = Lengths {
                    minimum: 0,
                    maximum: self.lengths().maximum.map(|words| words.saturating_sub(1)),
                };
                let words = words
                    .iter()
                    .map(|test| Self::Word(test.clone()).anchor(cost));
                cheapest(words).map(|anchor| anchor.moved(inside))
            }
            Self::Intersection(spans) => cheapest(spans.iter().map(|span| span.anchor(cost))),
            Self::Near {
                parts,
                distance,
                is_ordered,
            } => cheapest(parts.iter().enumerate().map(|(number, part)| {
                let mut before = Lengths {
                    minimum: 0,
                    maximum: Some((*distance).into()),
                };
                for (other, part) in parts.iter().enumerate() {
                    let mut lengths = part.lengths();
                    if !is_ordered {
                        lengths.minimum = 0;
                    }
                    if other < number || other > number && !is_ordered {
                        before = before.plus(lengths);
                    }
                }
                part.anchor(cost).map(|anchor| anchor.moved(before))
            })),
        }
    }
}
