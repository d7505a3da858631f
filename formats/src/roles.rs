//! The fields of a record that become its text and its name.
//!
//! Invariant: a record has a text; the other fields keep their order.

use std::sync::Arc;

use crate::options::ReadOptions;
use crate::record::FieldValue;

/// The names of the fields that a format's records have text and name in.
pub(crate) struct Roles<'a> {
    text: &'a [&'a str],
    name: &'a str,
    is_name_required: bool,
}

/// The names of the text where no option gives one: the first that a record has.
const TEXTS: [&str; 2] = ["content", "text"];

impl<'a> Roles<'a> {
    pub(crate) fn of(options: &'a ReadOptions<'_>, own: &'a mut Option<&'a str>) -> Roles<'a> {
        *own = options.text.as_deref();
        Roles {
            text: own.as_ref().map_or(&TEXTS, std::slice::from_ref),
            name: options.name.as_deref().unwrap_or("file"),
            is_name_required: options.name.is_some(),
        }
    }
}

/// A record with its fields, of which some become its text and name.
pub(crate) struct FieldRecord {
    pub(crate) text: Vec<u8>,
    pub(crate) name: Option<String>,
    pub(crate) fields: Vec<(Arc<str>, FieldValue)>,
}

/// Takes text and name from the fields of a record.
///
/// # Errors
/// Why that is impossible.
pub(crate) fn take_roles(
    mut fields: Vec<(Arc<str>, FieldValue)>,
    roles: &Roles<'_>,
) -> Result<FieldRecord, String> {
    let place = |fields: &[(Arc<str>, FieldValue)], name: &str| {
        fields.iter().position(|(field, _)| &**field == name)
    };
    let text = roles.text.iter().find_map(|name| place(&fields, name));
    let Some(text) = text else {
        let wanted = roles.text.join("` or `");
        let hint = match roles.text {
            [_] => "",
            _ => {
                "; hint: text = 'NAME' names the field with the text, format = 'text' copies the whole file"
            }
        };
        return Err(format!("it has no field `{wanted}`{hint}"));
    };
    let text = match fields.remove(text).1 {
        FieldValue::Text(text) | FieldValue::Untyped(text) => text.into_bytes(),
        FieldValue::Bytes(bytes) => bytes,
        FieldValue::Null => return Err("its text is null".to_owned()),
        _ => return Err("its text is no string".to_owned()),
    };
    let name = match place(&fields, roles.name) {
        Some(name) => {
            let name = fields.remove(name).1.into_name();
            Some(name.ok_or_else(|| {
                format!(
                    "its name, the field `{}`, is neither a string nor a whole number",
                    roles.name
                )
            })?)
        }
        None if roles.is_name_required => {
            return Err(format!(
                "it has no field `{}`, which gives the name",
                roles.name
            ));
        }
        None => None,
    };
    Ok(FieldRecord { text, name, fields })
}
