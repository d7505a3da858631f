//! Text to a checked logical plan.
