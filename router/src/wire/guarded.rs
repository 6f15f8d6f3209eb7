//! JSON whose errors quote no texts: a wrapper around a deserializer.
//!
//! serde's own message for a text of the wrong type repeats the text, whatever its length. Through [`Guarded`] a text arrives
//! only where the type takes one, the name of a variant is cut, and fields that no type asks for are read like all others:
//! with their depth, encoding and escapes checked.

use prefold_core::shown;
use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, Expected, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// A deserializer, a visitor, a seed or an access to several values; everything inside is guarded too.
pub(super) struct Guarded<T>(pub(super) T);

/// A visitor of a type that takes no texts.
struct NoText<V>(V);

/// A visitor of a type whose values are names.
struct Name<V>(V);

macro_rules! forward {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.0.$method(Guarded(visitor))
        }
    )*};
}

/// A JSON value shows its type, so a visitor that may get any value checks the type itself.
macro_rules! without_text {
    ($($method:ident($($name:ident: $type:ty),*))*) => {$(
        fn $method<V: Visitor<'de>>(self, $($name: $type,)* visitor: V) -> Result<V::Value, D::Error> {
            $(let _ = $name;)*
            self.0.deserialize_any(NoText(visitor))
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Guarded<D> {
    type Error = D::Error;

    forward! {
        deserialize_any deserialize_char deserialize_str deserialize_string deserialize_bytes deserialize_byte_buf
        deserialize_option deserialize_identifier
    }

    without_text! {
        deserialize_bool() deserialize_i8() deserialize_i16() deserialize_i32() deserialize_i64() deserialize_u8()
        deserialize_u16() deserialize_u32() deserialize_u64() deserialize_f32() deserialize_f64() deserialize_unit()
        deserialize_seq() deserialize_map() deserialize_tuple(len: usize)
        deserialize_unit_struct(name: &'static str)
        deserialize_tuple_struct(name: &'static str, len: usize)
        deserialize_struct(name: &'static str, fields: &'static [&'static str])
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_newtype_struct(name, Guarded(visitor))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_any(Name(visitor))
    }

    /// Reads a value that a type ignores, instead of skipping it.
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_any(Guarded(visitor))
    }
}

macro_rules! visit {
    ($($method:ident: $type:ty,)*) => {$(
        fn $method<E: Error>(self, value: $type) -> Result<V::Value, E> {
            self.0.$method(value)
        }
    )*};
}

macro_rules! visit_inner {
    () => {
        type Value = V::Value;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.expecting(f)
        }

        visit! { visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, }

        fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
            self.0.visit_unit()
        }

        fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<V::Value, A::Error> {
            self.0.visit_seq(Guarded(items))
        }

        fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<V::Value, A::Error> {
            self.0.visit_map(Guarded(fields))
        }
    };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Guarded<V> {
    visit_inner! {}

    visit! { visit_str: &str, visit_borrowed_str: &'de str, visit_string: String, }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.0.visit_none()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        self.0.visit_some(Guarded(deserializer))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<V::Value, D::Error> {
        self.0.visit_newtype_struct(Guarded(deserializer))
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for NoText<V> {
    visit_inner! {}

    fn visit_str<E: Error>(self, _: &str) -> Result<V::Value, E> {
        let expected: &dyn Expected = &self.0;
        Err(E::custom(format_args!("invalid type: string, expected {expected}")))
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Name<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<V::Value, E> {
        self.0.visit_enum(shown(name).into_deserializer())
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Guarded<A> {
    type Error = A::Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, A::Error> {
        self.0.next_element_seed(Guarded(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Guarded<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        self.0.next_key_seed(seed)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, A::Error> {
        self.0.next_value_seed(Guarded(seed))
    }
}

impl<'de, T: DeserializeSeed<'de>> DeserializeSeed<'de> for Guarded<T> {
    type Value = T::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T::Value, D::Error> {
        self.0.deserialize(Guarded(deserializer))
    }
}
