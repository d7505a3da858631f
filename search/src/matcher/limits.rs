//! What compiling a test may use.

/// What a matcher may use.
#[derive(Debug, Clone, Copy)]
pub struct MatcherLimits {
    /// Bytes of the automaton of one regular expression, and of what it keeps for each thread.
    pub regex_size_max: usize,
}

impl Default for MatcherLimits {
    /// 8 MiB.
    fn default() -> Self {
        Self {
            regex_size_max: 8 << 20,
        }
    }
}
