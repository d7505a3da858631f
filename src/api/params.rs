//! `Params`: the values of a statement's parameters, in the forms that callers have them in.
//!
//! Invariant: every form gives one slice of values, in order of the parameters' numbers. Whether they fit the statement is not
//! known here.

use crate::Value;

/// Values for the parameters (`?`, `?1`, `$1`, `:name`) of a statement, in order of their numbers.
///
/// `()` for none; an array of values of one type; a tuple of up to eight values of any types; [`params!`](crate::params) of
/// any number of any types; slices, vectors and references of arrays of [`Value`]s that are there already. What turns into a
/// [`Value`] is a value.
///
/// ```
/// use zipfdb::{Database, Value, params};
///
/// let db = Database::in_memory()?;
/// let count = |params: &[Value]| db.query("SELECT ?1", params).map(Iterator::count);
/// assert_eq!(count(&[Value::Null])?, 1);
/// db.query("SELECT 1", ())?;
/// db.query("SELECT ?1, ?2", [1, 2])?;
/// db.query("SELECT ?1, ?2", ("one", 2))?;
/// db.query("SELECT ?1, ?2, ?3", params!["one", 2.5, None::<i64>])?;
/// # Ok::<(), zipfdb::Error>(())
/// ```
pub trait Params {
    /// Calls `run` with the values.
    fn with_values<T>(self, run: impl FnOnce(&[Value]) -> T) -> T;
}

impl Params for () {
    fn with_values<T>(self, run: impl FnOnce(&[Value]) -> T) -> T {
        run(&[])
    }
}

impl Params for &[Value] {
    fn with_values<T>(self, run: impl FnOnce(&[Value]) -> T) -> T {
        run(self)
    }
}

impl Params for &Vec<Value> {
    fn with_values<T>(self, run: impl FnOnce(&[Value]) -> T) -> T {
        run(self)
    }
}

impl<const N: usize> Params for &[Value; N] {
    fn with_values<T>(self, run: impl FnOnce(&[Value]) -> T) -> T {
        run(self)
    }
}

impl<V: Into<Value>, const N: usize> Params for [V; N] {
    fn with_values<T>(self, run: impl FnOnce(&[Value]) -> T) -> T {
        run(&self.map(Into::into))
    }
}

/// Implements [`Params`] for the tuple of some types.
macro_rules! tuple_params {
    ($($value:ident)+) => {
        impl<$($value: Into<Value>),+> Params for ($($value,)+) {
            #[allow(non_snake_case)]
            fn with_values<T>(self, run: impl FnOnce(&[Value]) -> T) -> T {
                let ($($value,)+) = self;
                run(&[$($value.into()),+])
            }
        }
    };
}

tuple_params!(A);
tuple_params!(A B);
tuple_params!(A B C);
tuple_params!(A B C D);
tuple_params!(A B C D E);
tuple_params!(A B C D E F);
tuple_params!(A B C D E F G);
tuple_params!(A B C D E F G H);

/// An array of [`Value`](crate::Value)s, of values of any types: [`Params`](crate::Params) of any number.
///
/// ```
/// use zipfdb::{Value, params};
///
/// assert_eq!(params!["one", 2, 2.5], [Value::from("one"), Value::from(2), Value::from(2.5)]);
/// ```
#[macro_export]
macro_rules! params {
    ($($value:expr),* $(,)?) => {{
        let values: [$crate::Value; _] = [$($crate::Value::from($value)),*];
        values
    }};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_forms_give_the_values_in_order() {
        fn values(params: impl Params) -> Vec<Value> {
            params.with_values(<[Value]>::to_vec)
        }
        let expected = [Value::Integer(1), Value::from("b")];
        assert_eq!(values(()), []);
        assert_eq!(values(params![]), []);
        assert_eq!(values(&[]), []);
        assert_eq!(values((1, "b")), expected);
        assert_eq!(values(params![1, "b"]), expected);
        assert_eq!(values(&expected), expected);
        assert_eq!(values(&expected[..]), expected);
        assert_eq!(values(&expected.to_vec()), expected);
        assert_eq!(values(expected.clone()), expected);
        assert_eq!(values(["a", "b"]), ["a", "b"].map(Value::from));
        let eight = (1u8, 2i16, 3u32, 4i64, 5.0, true, None::<&str>, vec![8u8]);
        let types = values(eight)
            .iter()
            .map(Value::type_name)
            .collect::<Vec<_>>();
        let integer = "INTEGER";
        assert_eq!(
            types,
            [
                integer, integer, integer, integer, "REAL", integer, "NULL", "BLOB"
            ]
        );
    }
}
