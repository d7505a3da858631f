//! Formulas of collocation, keyness, dispersion and ranking, as functions of counts.
