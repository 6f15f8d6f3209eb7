//! Members of a body that are null, which count as absent.

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::fmt;

/// The object without its members that are null; `None` if it has no such members, or the body is no object.
pub(super) fn without(body: &[u8]) -> Option<Vec<u8>> {
    let Members(members) = serde_json::from_slice(body).ok()?;
    let is_null = |value: &RawValue| value.get() == "null";
    if !members.iter().any(|(_, value)| is_null(value)) {
        return None;
    }
    let mut rest = Vec::with_capacity(body.len());
    for (key, value) in members.into_iter().filter(|(_, value)| !is_null(value)) {
        rest.push(if rest.is_empty() { b'{' } else { b',' });
        serde_json::to_writer(&mut rest, &key).ok()?;
        rest.push(b':');
        rest.extend_from_slice(value.get().as_bytes());
    }
    if rest.is_empty() {
        rest.push(b'{');
    }
    rest.push(b'}');
    Some(rest)
}

/// Members of an object in their order.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor).map(Self)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Vec<(String, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_that_are_null_are_left_out() {
        for (body, rest) in [
            (
                r#"{"a": null, "b\n": [null, {"c": null}] , "d":"null"}"#,
                Some(r#"{"b\n":[null, {"c": null}],"d":"null"}"#),
            ),
            (r#"{"a": null}"#, Some("{}")),
            (r#"{"a": 1}"#, None),
            ("[null]", None),
            ("{", None),
        ] {
            assert_eq!(without(body.as_bytes()), rest.map(|rest| rest.as_bytes().to_vec()), "{body}");
        }
    }
}
