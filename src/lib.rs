//! An embeddable database for text that stays compressed while it is queried.
