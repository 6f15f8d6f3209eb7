//! OpenAPI schemas of inputs with hand-written deserialization; no values of these types exist.
//!
//! The limits apply to a server without `--allow-empty-inputs`.

use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{
    AnyOfBuilder, ArrayBuilder, ArrayItems, KnownFormat, ObjectBuilder, Schema, SchemaFormat, Type,
};
use utoipa::{PartialSchema, ToSchema};

/// Declares types that only have a schema.
macro_rules! described {
    ($($(#[doc = $doc:literal])+ $name:ident = $schema:expr;)+) => {$(
        $(#[doc = $doc])+
        #[allow(dead_code, reason = "it is only described")]
        pub(crate) struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let description = concat!($($doc, "\n"),+);
                let description: Vec<&str> = description.lines().map(str::trim).collect();
                described_as($schema, description.join(" ")).into()
            }
        }

        impl ToSchema for $name {}
    )+};
}

described! {
    /// Inputs of the model: a text, a list of texts, a list of token ids, a list of such lists, or a list of texts and such
    /// lists. A text may be the field `text` of an object.
    InputsSchema = any_of([text(), object(), list(id()), list(any_of([text(), object(), list(id())]))]);

    /// A text that is not empty.
    TextSchema = text();

    /// A text or a list of texts.
    TextsSchema = any_of([text(), list(text())]);

    /// A text, a list of texts, or an empty text or list.
    TextsOrNoneSchema = any_of([ObjectBuilder::new().schema_type(Type::String).into(), array(text()).into()]);

    /// A list of token ids or a list of such lists.
    IdListsSchema = any_of([list(id()), list(array(id()).into())]);

    /// A text, a pair (a flat list of two), or a list of lists with one or two texts each.
    SequencesSchema = any_of([text(), pair(), list(pair())]);

    /// A text, a list of texts, or a list of lists of texts, which count as one list.
    TokenTextsSchema = any_of([text(), list(text()), list(list(text()))]);

    /// A text, or an object that holds it.
    DocumentSchema = any_of([text(), object()]);

    /// Documents: a list, or one of them. Each is a text, or an object that holds it.
    DocumentsSchema = any_of([text(), object(), list(any_of([text(), object()]))]);
}

fn text() -> Schema {
    ObjectBuilder::new().schema_type(Type::String).min_length(Some(1)).into()
}

/// An object that holds a text.
fn object() -> Schema {
    ObjectBuilder::new().property("text", text()).required("text").into()
}

fn id() -> Schema {
    let format = Some(SchemaFormat::KnownFormat(KnownFormat::Int32));
    ObjectBuilder::new().schema_type(Type::Integer).format(format).minimum(Some(0)).into()
}

fn pair() -> Schema {
    array(text()).min_items(Some(1)).max_items(Some(2)).into()
}

fn list(items: Schema) -> Schema {
    array(items).min_items(Some(1)).into()
}

fn array(items: Schema) -> ArrayBuilder {
    ArrayBuilder::new().items(ArrayItems::RefOrSchema(Box::new(items.into())))
}

fn any_of<const N: usize>(schemas: [Schema; N]) -> Schema {
    schemas.into_iter().fold(AnyOfBuilder::new(), AnyOfBuilder::item).into()
}

fn described_as(mut schema: Schema, text: String) -> Schema {
    let place = match &mut schema {
        Schema::Object(object) => &mut object.description,
        Schema::AnyOf(any_of) => &mut any_of.description,
        Schema::Array(array) => &mut array.description,
        _ => return schema,
    };
    *place = Some(text);
    schema
}
