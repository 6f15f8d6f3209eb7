//! Valid and invalid bodies.

use super::arriving::MAX_DISCARDED;
use super::*;
use crate::wire::inputs::{Inputs, MAX_IDS};
use crate::wire::parsed_size::MAX_VALUES;
use async_compression::Level;
use async_compression::futures::write::{GzipEncoder, ZstdEncoder};
use async_compression::zstd::CParameter;
use axum::body::{Body, Bytes};
use axum::http::header;
use futures::{AsyncWriteExt, StreamExt};
use prefold_core::{Error, Input, Quota, Resource};
use serde::Deserialize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};

#[derive(Debug, Deserialize)]
struct Dto<T> {
    inputs: T,
    #[allow(dead_code, reason = "read by the parser")]
    flag: Option<bool>,
}

#[test]
fn syntax_and_types_are_told_apart() {
    for body in ["", "{", "{\"inputs\": \"a\"", "{'inputs': 1}", "{\"inputs\":\"a\"} x", "\u{feff}{}"] {
        assert!(matches!(parse::<Dto<Inputs>>(body.as_bytes()), Err(ApiError::Syntax(_))), "{body}");
    }
    assert!(matches!(parse::<Dto<Inputs>>(b"{\"inputs\":\"\xff\"}"), Err(ApiError::Syntax(_))));
    let missing = parse::<Dto<Inputs>>(b"{}").unwrap_err().to_string();
    assert_eq!(missing, "`inputs`: missing field");
    let missing = parse::<Dto<Vec<Dto<Inputs>>>>(b"{\"inputs\":[{}]}").unwrap_err().to_string();
    assert!(missing.starts_with("`inputs[0].inputs`: missing field"), "{missing}");
    let wrong = parse::<Dto<Inputs>>(b"{\"inputs\":\"a\",\n\"flag\":\"yes\"}").unwrap_err().to_string();
    assert!(wrong.starts_with("`flag`: invalid type: string, expected true or false (line 2, column"), "{wrong}");
}

fn request(body: Body, headers: &[(header::HeaderName, &str)]) -> Request {
    let mut request = Request::new(body);
    for (name, value) in headers {
        request.headers_mut().append(name, value.parse().unwrap());
    }
    request
}

fn chunked(sizes: &[usize]) -> Body {
    let chunks: Vec<_> = sizes.iter().map(|&n| Ok::<_, std::io::Error>(Bytes::from(vec![b'x'; n]))).collect();
    Body::from_stream(futures::stream::iter(chunks))
}

#[tokio::test]
async fn the_limit_holds_with_and_without_a_length() {
    assert_eq!(read_body(request(chunked(&[4, 6]), &[]), 10).await.unwrap().len(), 10);
    for sizes in [&[11][..], &[10, 1], &[4, 4, 4, 4]] {
        let declared = sizes.iter().sum::<usize>().to_string();
        for headers in [&[][..], &[(header::CONTENT_LENGTH, declared.as_str())]] {
            let result = read_body(request(chunked(sizes), headers), 10).await;
            assert!(matches!(result, Err(ApiError::PayloadTooLarge { limit: 10 })), "{sizes:?} {headers:?}");
        }
    }
}

#[tokio::test]
async fn a_body_that_was_not_sent_is_not_waited_for() {
    let never = || Body::from_stream(futures::stream::pending::<Result<Bytes, std::io::Error>>());
    let waiting = [(header::CONTENT_LENGTH, "11"), (header::EXPECT, "100-continue")];
    let huge = (MAX_DISCARDED + 11).to_string();
    for headers in [&waiting[..], &[(header::CONTENT_LENGTH, huge.as_str())]] {
        let result = read_body(request(never(), headers), 10).await;
        assert!(matches!(result, Err(ApiError::PayloadTooLarge { .. })), "{headers:?}");
    }
}

#[test]
fn a_body_is_an_object() {
    for (body, kind) in [
        ("[\"a\",null]", "an array"),
        (" \"a\"", "a string"),
        ("-1", "a number"),
        ("true", "a boolean"),
        ("null", "null"),
    ] {
        let error = parse::<Dto<Inputs>>(body.as_bytes()).unwrap_err().to_string();
        assert_eq!(error, format!("the request body is {kind}, it must be a JSON object"));
    }
    assert!(matches!(parse::<Dto<Inputs>>(b"[1,"), Err(ApiError::Syntax(_))));
}

#[tokio::test]
async fn another_coding_is_named() {
    let coded = |coding| request(chunked(&[4]), &[(header::CONTENT_ENCODING, coding)]);
    let error = read_body(coded("br"), 10).await.unwrap_err();
    assert!(matches!(&error, ApiError::Encoded { coding, .. } if coding == "br"), "{error}");
    let identity = (header::CONTENT_ENCODING, "Identity");
    for fields in
        [&[(header::CONTENT_ENCODING, "zstd, gzip")][..], &[identity.clone(), (header::CONTENT_ENCODING, "br")]]
    {
        assert!(read_body(request(chunked(&[4]), fields), 10).await.is_err(), "{fields:?}");
    }
    assert_eq!(read_body(request(chunked(&[4]), &[identity.clone(), identity]), 10).await.unwrap().len(), 4);
}

#[tokio::test]
async fn a_broken_body_is_the_clients_fault() {
    let chunks = [Ok(Bytes::from_static(b"{")), Err(std::io::Error::other("gone"))];
    let result = read_body(request(Body::from_stream(futures::stream::iter(chunks)), &[]), 10).await;
    assert!(matches!(result, Err(ApiError::Unreadable(problem)) if problem.contains("gone")));
}

/// The body of a request with a coding, in pieces of a size.
fn encoded(coding: &'static str, bytes: &[u8], piece: usize) -> Request {
    let pieces: Vec<_> =
        bytes.chunks(piece).map(|piece| Ok::<_, std::io::Error>(Bytes::copy_from_slice(piece))).collect();
    request(Body::from_stream(futures::stream::iter(pieces)), &[(header::CONTENT_ENCODING, coding)])
}

async fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzipEncoder::new(Vec::new());
    encoder.write_all(bytes).await.unwrap();
    encoder.close().await.unwrap();
    encoder.into_inner()
}

async fn zstd(bytes: &[u8], window_log: u32) -> Vec<u8> {
    let parameters = [CParameter::window_log(window_log)];
    let mut encoder = ZstdEncoder::with_quality_and_params(Vec::new(), Level::Fastest, &parameters);
    encoder.write_all(bytes).await.unwrap();
    encoder.close().await.unwrap();
    encoder.into_inner()
}

/// Bytes that compress to about half.
fn text(len: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        b'a' + u8::try_from(state >> 28).unwrap()
    };
    (0..len).map(|_| next()).collect()
}

#[tokio::test]
async fn an_encoded_body_is_decoded() {
    let body = text(100_000);
    let two_members = [gzip(&body[..60_000]).await, gzip(&body[60_000..]).await].concat();
    let two_frames = [zstd(&body[..60_000], 20).await, zstd(&body[60_000..], 20).await].concat();
    let once = (gzip(&body).await, zstd(&body, 23).await);
    for (coding, bytes) in [("gzip", once.0), ("gzip", two_members), ("zstd", once.1), ("zstd", two_frames)] {
        for piece in [7, 1000, 1 << 20] {
            let decoded = read_body(encoded(coding, &bytes, piece), 100_000).await.unwrap();
            assert!(decoded == body, "{coding} in pieces of {piece}");
            let too_large = read_body(encoded(coding, &bytes, piece), 99_999).await;
            assert!(matches!(too_large, Err(ApiError::PayloadTooLarge { limit: 99_999 })), "{coding}: {too_large:?}");
        }
    }
    assert_eq!(read_body(encoded("zstd", &zstd(b"", 20).await, 7), 10).await.unwrap(), b"");
}

#[tokio::test]
async fn the_limit_holds_for_encoded_bytes_too() {
    // Empty members: nothing is ever decoded.
    let nothing = gzip(b"").await.repeat(1000);
    let result = read_body(encoded("gzip", &nothing, 100), nothing.len() - 1).await;
    assert!(matches!(result, Err(ApiError::PayloadTooLarge { .. })), "{result:?}");
    assert_eq!(read_body(encoded("gzip", &nothing, 100), nothing.len()).await.unwrap(), b"");
}

#[tokio::test]
async fn damaged_codings_are_the_clients_fault() {
    let (zipped, framed) = (gzip(&text(1000)).await, zstd(&text(1000), 20).await);
    let wide = zstd(&text(1 << 20), 24).await;
    for (coding, bytes, problem) in [
        ("gzip", zipped[..zipped.len() - 9].to_vec(), "gzip: "),
        ("gzip", [&zipped[..], b"rest"].concat(), "gzip: "),
        ("gzip", b"{\"inputs\":\"a\"}".to_vec(), "gzip: "),
        ("gzip", Vec::new(), "gzip: "),
        ("gzip", framed.clone(), "gzip: "),
        ("zstd", framed[..framed.len() - 1].to_vec(), "zstd: "),
        ("zstd", [&framed[..], b"rest"].concat(), "zstd: "),
        ("zstd", zipped, "zstd: "),
        ("zstd", wide, "zstd: the frame needs a window of more than 8 MiB, which is the limit"),
    ] {
        let result = read_body(encoded(coding, &bytes, 100), 1 << 21).await;
        assert!(matches!(&result, Err(ApiError::Unreadable(said)) if said.contains(problem)), "{coding}: {result:?}");
    }
    let gone = [Ok(Bytes::from(framed[..20].to_vec())), Err(std::io::Error::other("gone"))];
    let gone = request(Body::from_stream(futures::stream::iter(gone)), &[(header::CONTENT_ENCODING, "zstd")]);
    let result = read_body(gone, 10_000).await;
    assert!(matches!(&result, Err(ApiError::Unreadable(said)) if said.contains("gone")), "{result:?}");
}

#[tokio::test]
async fn what_a_decoder_keeps_counts_while_it_decodes() {
    let body = text(1_000_000);
    for (coding, bytes, kept) in [("gzip", gzip(&body).await, 1 << 15), ("zstd", zstd(&body, 23).await, 900_000)] {
        let share = Arc::new(Quota::new(1, Resource::BufferedBytes).share());
        let (seen, of_pieces) = (Arc::new(AtomicUsize::new(0)), Arc::clone(&share));
        let most = Arc::clone(&seen);
        let mut request = encoded(coding, &bytes, 1000).map(|pieces| {
            let pieces = pieces.into_data_stream();
            Body::from_stream(pieces.inspect(move |_| _ = most.fetch_max(of_pieces.held(), Ordering::Relaxed)))
        });
        request.extensions_mut().insert(Arc::clone(&share));
        let capacity = read_body(request, body.len()).await.unwrap().capacity();
        let most = seen.load(Ordering::Relaxed);
        assert!(most > capacity + kept && most < capacity + kept + 600_000, "{coding}: {most} beside {capacity}");
        assert_eq!(share.held(), capacity, "{coding}: the decoder's bytes are released");
    }
}

#[test]
fn a_body_has_no_more_values_than_any_request_needs() {
    let nested = |item: &str, count: usize| format!("{{\"inputs\":[{}{item}]}}", format!("{item},").repeat(count - 1));
    for item in ["[]", "\"\"", "{}", "\"[{\\\"\""] {
        let error = parsed_size(nested(item, MAX_VALUES + 1).as_bytes()).unwrap_err();
        assert!(matches!(error, ApiError::TooManyValues { limit: MAX_VALUES }), "{item}: {error}");
    }
    // Brackets inside strings do not count, and neither do numbers, which take no more memory than their digits.
    let text = format!("{{\"inputs\":\"{}\"}}", "[{\\\"".repeat(MAX_VALUES));
    assert!(parsed_size(text.as_bytes()).unwrap() < text.len() + 1000);
    assert_eq!(parse::<Dto<Inputs>>(text.as_bytes()).unwrap().value.inputs.0.len(), 1);
    let list = format!("[{}7]", "7,".repeat(MAX_IDS - 1));
    parsed_size(nested(&list, 2).as_bytes()).unwrap();
    let ids = parse::<Dto<Inputs>>(nested(&list, 2).as_bytes()).unwrap().value.inputs.0.into_vec();
    assert_eq!(ids, [Input::Ids(vec![7; MAX_IDS]), Input::Ids(vec![7; MAX_IDS])]);
}

fn raw(bytes: &[u8], share: &Arc<Share>) -> RawBody {
    share.force(bytes.len());
    RawBody {
        bytes: Bytes::copy_from_slice(bytes),
        held: Some((Arc::clone(share), share.held())),
        ignored: IgnoredFields::default(),
        sent: SentNames::default(),
        replaced: ReplacedText::default(),
        is_strict: false,
        invalid_unicode: InvalidUnicode::Replace,
    }
}

#[tokio::test]
async fn values_count_before_they_are_there_and_in_place_of_the_body_once_they_are() {
    let quota = Quota::new(100_000, Resource::BufferedBytes);
    let [share, other] = [(); 2].map(|()| Arc::new(quota.share()));
    // 3 kB, which become two hundred.
    let body = format!("{{\"inputs\":[{}[]]}}", "[],".repeat(999));
    let size = parsed_size(body.as_bytes()).unwrap();
    assert!(size > 50 * body.len(), "{size}");
    let mut read = raw(body.as_bytes(), &share);
    for _ in 0..2 {
        read.probe::<Dto<Inputs>>().await.unwrap();
        assert_eq!(share.held(), body.len() + size, "counted once");
    }
    let parsed: Dto<Inputs> = read.parse().await.unwrap();
    assert_eq!((parsed.inputs.0.len(), share.held()), (1000, size));
    // While others hold the limit there is no room for values, few as they are.
    quota.share().grow(1).unwrap_err();
    let error = raw(b"{\"inputs\":\"a\"}", &other).parse::<Dto<Inputs>>().await.unwrap_err();
    assert!(matches!(error, ApiError::Engine(Error::Overloaded { resource: Resource::BufferedBytes, .. })), "{error}");
}

#[tokio::test]
async fn values_count_while_they_are_parsed_whether_or_not_the_client_is_there() {
    /// Says that it is being parsed, and waits to go on.
    struct Slow;
    static STEPS: Mutex<Vec<mpsc::Receiver<()>>> = Mutex::new(Vec::new());
    impl<'de> Deserialize<'de> for Slow {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let go_on = STEPS.lock().unwrap().pop().unwrap();
            go_on.recv().unwrap();
            IgnoredAny::deserialize(deserializer).map(|_| Self)
        }
    }
    let quota = Quota::new(100_000, Resource::BufferedBytes);
    let share = Arc::new(quota.share());
    let (go_on, steps) = mpsc::channel();
    STEPS.lock().unwrap().push(steps);
    let body = format!("{{\"inputs\":\"{}\"}}", "a".repeat(PARSED_AT_ONCE));
    let mut read = raw(body.as_bytes(), &share);
    let mut parsing = Box::pin(read.parse::<Dto<Slow>>());
    let begun = async {
        while !STEPS.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! { _ = &mut parsing => panic!("it waits"), () = begun => {} }
    drop(parsing);
    drop((read, share));
    assert!(quota.held() > body.len(), "{}", quota.held());
    go_on.send(()).unwrap();
    quota.all_released().await;
}

#[derive(Debug, Deserialize)]
#[allow(dead_code, reason = "read by the parser")]
enum Way {
    Up,
    Down,
}

#[derive(Debug, Deserialize)]
#[allow(dead_code, reason = "read by the parser")]
struct EveryType {
    inputs: Option<Inputs>,
    number: Option<usize>,
    fraction: Option<f32>,
    flag: Option<bool>,
    way: Option<Way>,
    list: Option<Vec<String>>,
    object: Option<Box<EveryType>>,
    text: Option<String>,
}

#[test]
fn no_error_repeats_a_text() {
    let secret = "hunter2\\n\\u001b[31m".repeat(10_000);
    for field in ["number", "fraction", "flag", "list", "object"] {
        let error = parse::<EveryType>(format!("{{\"{field}\":\"{secret}\"}}").as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with(&format!("`{field}`: invalid type: string, expected ")), "{error}");
        assert!(error.len() < 120 && !error.contains("hunter2"), "{error}");
    }
    let error = parse::<EveryType>(format!("{{\"object\":{{\"way\":\"{secret}\"}}}}").as_bytes()).unwrap_err();
    let error = error.to_string();
    assert!(error.starts_with("`object.way`: unknown value `hunter2\\n\\u{1b}[31m"), "{error}");
    assert!(error.len() < 500 && error.contains("..."), "{error}");
    for (field, value) in [("way", "1"), ("text", "1"), ("inputs", "{}"), ("number", "[]"), ("list", "[1]")] {
        let error = parse::<EveryType>(format!("{{\"{field}\":{value}}}").as_bytes()).unwrap_err();
        assert!(matches!(error, ApiError::Body { .. }), "{error}");
    }
    let good =
        "{\"number\":1,\"fraction\":2,\"flag\":true,\"way\":\"Up\",\"list\":[\"a\"],\"object\":{},\"text\":\"b\"}";
    let parsed = parse::<EveryType>(good.as_bytes()).unwrap().value;
    assert!(matches!(parsed.way, Some(Way::Up)) && parsed.object.is_some(), "{parsed:?}");
    parse::<EveryType>(b"{\"number\":null,\"way\":null,\"list\":null,\"object\":null,\"inputs\":null}").unwrap();
}

#[test]
fn fields_that_nobody_reads_are_checked_all_the_same() {
    let with = |value: &[u8]| [&b"{\"inputs\":\"a\",\"other\":"[..], value, b"}"].concat();
    let nested = |depth: usize| ["[".repeat(depth), "]".repeat(depth)].concat();
    for good in [nested(120), "{\"a\":[1,-2,3.5e7,null,true,\"\\ud83d\\ude00\"]}".to_owned()] {
        parse::<Dto<Inputs>>(&with(good.as_bytes())).unwrap();
    }
    for bad in [nested(130).as_bytes(), &b"\"\xff\""[..], b"\"\\ud800\"", b"[\"\\udc00 \"]", b"\"\n\"", b"01"] {
        let error = parse::<Dto<Inputs>>(&with(bad)).unwrap_err();
        assert!(matches!(error, ApiError::Syntax(_)), "{error}");
    }
    // The body's object is a level too.
    parse::<Dto<Inputs>>(&with(nested(MAX_LEVELS - 1).as_bytes())).unwrap();
    for deep in [with(nested(MAX_LEVELS).as_bytes()), nested(MAX_LEVELS + 1).into_bytes()] {
        let error = parse::<Dto<Inputs>>(&deep).unwrap_err().to_string();
        assert!(error.contains("nested more than 127 levels deep, which is the limit, at line 1 column"), "{error}");
    }
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "read by the parser")]
struct Outer {
    known: Option<u32>,
    inner: Option<Inner>,
    list: Option<Vec<Inner>>,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "read by the parser")]
struct Inner {
    known: Option<u32>,
}

fn ignored(body: &str) -> String {
    let fields = IgnoredFields::default();
    fields.add(parse::<Outer>(body.as_bytes()).unwrap().ignored);
    fields.header(&[]).map_or_else(String::new, |header| header.to_str().unwrap().to_owned())
}

#[test]
fn ignored_fields_are_named_by_their_path() {
    assert_eq!(ignored(r#"{"known": 1, "inner": {"known": 2}, "list": []}"#), "");
    assert_eq!(
        ignored(r#"{"knwon": 1, "inner": {"x": {"y": 1}}, "list": [{"a": 1}, {"a": 2, "b": 3}]}"#),
        "knwon, inner.x, list[].a, list[].b"
    );
}

#[test]
fn names_of_ignored_fields_are_few_short_and_ascii() {
    assert_eq!(ignored(r#"{"caf\u00e9\n\u202e": 1}"#), "caf\\u{e9}\\n\\u{202e}");
    let many: Vec<String> = (0..1000).map(|i| format!(r#""{i}{}": 0"#, "\u{e9}".repeat(1000))).collect();
    let names = ignored(&format!("{{{}}}", many.join(",")));
    assert_eq!((names.split(", ").count(), names.len()), (16, 16 * 64 + 15 * 2));
}

#[tokio::test]
async fn a_body_that_is_rewritten_counts_its_copies_until_it_is_parsed() {
    let text = [&b"{\"inputs\":\""[..], &[0xff; 1000], b"\"}"].concat();
    let quota = Quota::new(10_000, Resource::BufferedBytes);
    let [share, other] = [(); 2].map(|()| Arc::new(quota.share()));
    raw(&text, &share).parse::<Dto<Inputs>>().await.unwrap();
    assert!((3000..5000).contains(&share.held()), "{}", share.held());
    // While others hold the limit there is no room for copies.
    other.force(10_000);
    share.shrink_to(0);
    let error = raw(&text, &share).parse::<Dto<Inputs>>().await.unwrap_err();
    assert!(matches!(error, ApiError::Engine(Error::Overloaded { .. })), "{error}");
}
