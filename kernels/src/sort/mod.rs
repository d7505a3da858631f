//! Sorting on all threads of the host, by keys that are integers or bytes.

pub(crate) mod key_sort;
pub(crate) mod row_order;
pub(crate) mod window_keys;
