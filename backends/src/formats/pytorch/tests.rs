//! Files of PyTorch itself (tests/fixtures/pytorch), and files made byte by byte.

use super::testing::*;
use super::*;
use crate::disk::FileBytes;
use crate::formats::{TensorFiles, TensorFormat};

/// Six numbers, 0 to 5, as a storage.
fn numbers() -> Vec<u8> {
    (0..6_u8).flat_map(|n| f32::from(n).to_le_bytes()).collect()
}

fn archive(pickle: &[u8]) -> Vec<u8> {
    zip(&[("model/data.pkl", pickle), ("model/byteorder", b"little"), ("model/data/0", &numbers())])
}

fn open(bytes: Vec<u8>) -> Result<TensorFiles, LoadError> {
    TensorFiles::single(TensorFormat::Pytorch, "pytorch_model.bin", FileBytes::Static(bytes.leak()))
}

/// What a file of one tensor reads as.
fn read(tensor: &Tensor<'_>) -> Vec<f32> {
    let file = open(archive(&dict(&[("a.weight", tensor.pickled())]))).unwrap();
    file.read::<f32>("a.weight", tensor.shape).unwrap()
}

/// The message of a file that is refused.
fn refused(bytes: Vec<u8>) -> String {
    let message = open(bytes).map(drop).unwrap_err().to_string();
    assert!(message.starts_with("pytorch_model.bin"), "{message}");
    message
}

#[test]
fn files_of_pytorch_itself() {
    for name in ["archive.bin", "older.bin"] {
        let path = format!("{}/../tests/fixtures/pytorch/{name}", env!("CARGO_MANIFEST_DIR"));
        let file = open(std::fs::read(path).unwrap()).unwrap();
        let read = |name: &str, shape: &[usize]| file.read::<f32>(name, shape).unwrap();
        let numbers: Vec<f32> = (0..24_u8).map(f32::from).collect();
        assert_eq!(read("float.weight", &[4, 6]), numbers);
        assert_eq!(read("rows.weight", &[2, 6]), numbers[6..18]);
        let transposed: Vec<f32> =
            (0..6).flat_map(|column| (0..4).map(move |row| f32::from(6_u8 * row + column))).collect();
        assert_eq!(read("transposed.weight", &[6, 4]), transposed);
        assert_eq!(read("column.weight", &[4]), [5.0, 11.0, 17.0, 23.0]);
        let eighths: Vec<f32> = numbers.iter().map(|number| number / 8.0).collect();
        assert_eq!(read("half.weight", &[4, 6]), eighths);
        assert_eq!(read("bfloat.weight", &[4, 6]), eighths);
        assert_eq!(read("parameter.bias", &[2]), [0.5, -0.5]);
        assert_eq!(read("scalar.bias", &[]), [3.0]);
        assert!(!file.contains("position_ids") && !file.contains("steps"));
    }
}

#[test]
fn tensors_are_read_row_by_row_whatever_their_strides() {
    assert_eq!(read(&TENSOR), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let transposed = Tensor { shape: &[3, 2], strides: &[1, 3], ..TENSOR };
    assert_eq!(read(&transposed), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    let column = Tensor { offset: 1, shape: &[2], strides: &[3], ..TENSOR };
    assert_eq!(read(&column), [1.0, 4.0]);
    let single = Tensor { offset: 5, shape: &[1, 1], strides: &[7, 9], ..TENSOR };
    assert_eq!(read(&single), [5.0], "the stride of a single row means nothing");
    assert_eq!(read(&Tensor { offset: 6, shape: &[0, 2], ..TENSOR }), [0.0; 0]);
    let file = open(archive(&dict(&[("a.weight", transposed.pickled()), ("b.weight", TENSOR.pickled())]))).unwrap();
    assert_eq!(file.read_rows::<f32>("a.weight", [3, 2], &[2, 0]).unwrap(), [2.0, 5.0, 0.0, 3.0]);
    assert_eq!(file.read::<f32>("b.weight", &[2, 3]).unwrap()[5], 5.0, "two tensors share a storage");
}

#[test]
fn types_are_those_of_storages() {
    let half = Tensor { kind: "Half", length: 12, shape: &[2], strides: &[1], offset: 10, ..TENSOR };
    assert_eq!(read(&half), [0.0, half::f16::from_bits(0x40a0).to_f32()], "the halves of 5 in float32");
    let brain = Tensor { kind: "BFloat16", ..half };
    assert_eq!(read(&brain), [0.0, 5.0]);
    let long = Tensor { kind: "Long", length: 3, shape: &[3], strides: &[1], ..TENSOR };
    let file = open(archive(&dict(&[("position_ids", long.pickled()), ("a.weight", TENSOR.pickled())]))).unwrap();
    assert!(file.contains("a.weight") && !file.contains("position_ids"));
    assert!(refused(archive(&dict(&[("a.weight", long.pickled())]))).contains("`a.weight` of type Long"));
}

#[test]
fn what_is_not_tensors_is_refused_by_name() {
    let tensor = |tensor: Tensor<'_>| archive(&dict(&[("a.weight", tensor.pickled())]));
    let pickle = |pickle: &[u8]| archive(&[b"\x80\x02", pickle, b"."].concat());
    let huge = usize::MAX / 2;
    for (file, words) in [
        (pickle(b"cos\nsystem\n(X\x02\0\0\0lstR"), &["refuses the global os.system"][..]),
        (pickle(b"cbuiltins\neval\n"), &["refuses the global builtins.eval"]),
        (pickle(b"c__builtin__\ngetattr\n"), &["__builtin__.getattr"]),
        (pickle(b"ctorch\nload\n"), &["torch.load"]),
        (pickle(b"cnumpy.core.multiarray\nscalar\n"), &["numpy.core.multiarray.scalar"]),
        (pickle(b"X\x02\0\0\0osX\x06\0\0\0system\x93"), &["STACK_GLOBAL (0x93)"]),
        (pickle(b"(ios\nsystem\n"), &["INST"]),
        (pickle(b"ctorch\nFloatStorage\n)R"), &["refuses the call of torch.FloatStorage"]),
        (pickle(b"ccollections\nOrderedDict\n]\x85R"), &["refuses the call of collections.OrderedDict with 1"]),
        (pickle(b"K\x01K\x02s"), &["adds items to a value that is not an object", "byte 6"]),
        (pickle(b"K\x01N)R"), &["calls a value that is not a global"]),
        (pickle(b"h\x05"), &["nothing was stored as number 5"]),
        (pickle(b"X\xff\xff\xff\xff"), &["a text has 4294967295 bytes, at most 1024"]),
        (pickle(b"X\xff\x03\0\0"), &["ends too early"]),
        (pickle(b"]K\x01K\x02s"), &["SETITEM", "does not fit its object"]),
        (pickle(b"K\x01(K\x02\x86"), &["a tuple lacks items"]),
        (pickle(b""), &["the stack is empty"]),
        (pickle(b"K\x01("), &["the stack is empty"]),
        (pickle(b"]"), &["no dict of tensors"]),
        (
            archive(&dict(&[(
                "state_dict",
                dict(&[("a", TENSOR.pickled())])[2..].strip_suffix(b".").unwrap().to_vec(),
            )])),
            &["no tensors at the top level", "state_dict"],
        ),
        (tensor(Tensor { key: "1", ..TENSOR }), &["`a.weight`", "storage \"1\", which is not there"]),
        (tensor(Tensor { length: 7, ..TENSOR }), &["`a.weight`", "7 elements in 24 bytes"]),
        (tensor(Tensor { offset: 1, ..TENSOR }), &["offset 1 does not fit"]),
        (tensor(Tensor { shape: &[3, 3], ..TENSOR }), &["[3, 3]", "does not fit"]),
        (tensor(Tensor { shape: &[1 << 20, 6], strides: &[0, 1], ..TENSOR }), &["strides [0, 1]", "does not fit"]),
        (tensor(Tensor { strides: &[3], ..TENSOR }), &["does not fit"]),
        (tensor(Tensor { shape: &[2, 1], strides: &[1], ..TENSOR }), &["does not fit"]),
        (tensor(Tensor { shape: &[huge, huge, 0], strides: &[1, 1], ..TENSOR }), &["does not fit"]),
        (tensor(Tensor { shape: &[2, 2], strides: &[huge, huge], ..TENSOR }), &["does not fit"]),
        (tensor(Tensor { offset: huge, ..TENSOR }), &["does not fit"]),
        (tensor(Tensor { offset: usize::MAX, ..TENSOR }), &["malformed shape"]),
        (tensor(Tensor { length: huge, ..TENSOR }), &["does not fit"]),
        (tensor(Tensor { kind: "Complex", ..TENSOR }), &["torch.ComplexStorage"]),
    ] {
        let message = refused(file);
        assert!(words.iter().all(|word| message.contains(word)), "{message}\nlacks {words:?}");
    }
}

#[test]
fn archives_that_are_not_torch_s_are_refused() {
    let pickle = dict(&[("a.weight", TENSOR.pickled())]);
    let whole = archive(&pickle);
    let set = |mark: &[u8], offset: usize, value: u8| {
        let at = whole.windows(mark.len()).position(|bytes| bytes == mark).unwrap() + offset;
        let mut file = whole.clone();
        file[at] = value;
        file
    };
    for (file, words) in [
        (set(b"PK\x01\x02", 10, 8), "compressed"),
        (set(b"PK\x01\x02", 8, 1), "encrypted"),
        (set(b"PK\x01\x02", 42, 9), "not within the file"),
        (set(b"PK\x01\x02", 26, 200), "not within the file"),
        (set(b"PK\x01\x02", 0, 0), "malformed"),
        (set(b"PK\x01\x02", 28, 255), "malformed"),
        (set(b"PK\x05\x06", 0, 0), "no directory at its end"),
        (set(b"PK\x05\x06", 15, 9), "is it whole?"),
        (whole[..whole.len() - 30].to_vec(), "no directory at its end"),
        (zip(&[("a/data.pkl", &pickle), ("b/data.pkl", &pickle)]), "no data.pkl, or several"),
        (zip(&[("a/data.pkl", &pickle), ("a/data.pkl", &pickle)]), "occurs twice"),
        (zip(&[("a/data.pkl", &pickle), ("a/byteorder", b"big")]), "big-endian"),
        (zip(&[]), "are neither"),
        (b"version https://git-lfs.github.com/spec/v1\noid".to_vec(), "are neither"),
        (vec![], "its 0 bytes"),
    ] {
        let message = refused(file);
        assert!(message.contains(words), "{message}\nlacks {words}");
    }
}

#[test]
fn an_entry_begins_with_a_header_of_its_own() {
    let mut file = zip(&[("a/data/0", &[0; 200]), ("a/data.pkl", &dict(&[("a.weight", TENSOR.pickled())]))]);
    let entry = file.windows(4).position(|bytes| bytes == b"PK\x01\x02").unwrap();
    file[entry + 42] = 60;
    assert!(refused(file).contains("its entry \"a/data/0\" is not within the file"));
}

#[test]
fn memory_is_bounded_whatever_a_pickle_repeats() {
    let pickle = |pickle: Vec<u8>| archive(&[b"\x80\x02".to_vec(), pickle].concat());
    assert!(refused(pickle(b"]".repeat(MAX_PICKLE - 2))).contains("more than 262144 objects"));
    assert!(refused(pickle(b")".repeat(MAX_PICKLE))).contains("at most 2097152 are read"));
    assert!(
        refused(pickle([b"ccollections\nOrderedDict\n(".to_vec(), b"N".repeat(9), b"tR.".to_vec()].concat()))
            .contains("a tuple of 9 arguments, at most 8 are read")
    );
    let names: Vec<String> = (0..140).map(|number| format!("{number}{}", "x".repeat(60_000))).collect();
    let entries: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b""[..])).collect();
    assert!(refused(zip(&entries)).contains("its directory has 84"));
    // A list that holds itself a hundred thousand times, and a tuple of tuples as deep.
    assert!(
        refused(pickle([b"]q\x00".to_vec(), b"h\x00a".repeat(100_000), b".".to_vec()].concat())).contains("no dict")
    );
    assert!(refused(pickle([b")".to_vec(), b"\x85".repeat(100_000), b".".to_vec()].concat())).contains("no dict"));
    // One shape under many names, many names for one storage, one long name many times.
    let long = [1; 65];
    let file = archive(&dict(&[("a", Tensor { shape: &long, strides: &long, ..TENSOR }.pickled())]));
    assert!(refused(file).contains("more than 64 dimensions"));
    assert!(
        open(archive(&dict(&[("a", Tensor { shape: &long[1..], strides: &long[1..], ..TENSOR }.pickled())]))).is_ok()
    );
    let names: Vec<String> = (0..6).map(|number| number.to_string()).collect();
    let whole = Tensor { length: 25_006, shape: &[25_006], strides: &[1], ..TENSOR };
    let storage = vec![0; 4 * 25_006];
    let of_whole = |count: usize| {
        let tensors: Vec<_> = names[..count].iter().map(|name| (name.as_str(), whole.pickled())).collect();
        zip(&[("model/data.pkl", &dict(&tensors)), ("model/data/0", &storage)])
    };
    assert!(open(of_whole(4)).is_ok());
    assert!(refused(of_whole(6)).contains("its tensors take 600144 bytes, the limit is 4 times the file"));
    assert!(
        refused(pickle([text(&"x".repeat(1025)), b".".to_vec()].concat())).contains("has 1025 bytes, at most 1024")
    );
    assert!(refused(pickle(format!("c{}\nload\n", "x".repeat(2000)).into())).contains("is too long"));
    // What grows by repetition is a number of values that the pickle has, not of those that they stand for.
    let doubled = [b")q\x00".to_vec(), b"h\x00h\x00\x86q\x00".repeat(50_000), b".".to_vec()].concat();
    assert!(refused(pickle(doubled)).contains("no dict"));
}

/// A file of the older format.
fn older(version: &[u8], system: &[u8], dict: &[u8], keys: &[u8], storages: &[u8]) -> Vec<u8> {
    [MAGIC, version, system, dict, keys, storages].concat()
}

#[test]
fn files_of_the_older_format() {
    let dict = dict(&[("a.weight", TENSOR.pickled())]);
    let (version, system) =
        (b"\x80\x02M\xe9\x03.", [b"\x80\x02}".to_vec(), text("little_endian"), b"\x88s.".to_vec()].concat());
    let keys = [b"\x80\x02]".to_vec(), text("0"), b"a.".to_vec()].concat();
    let storages = [6_u64.to_le_bytes().to_vec(), numbers()].concat();
    let file = open(older(version, &system, &dict, &keys, &storages)).unwrap();
    assert_eq!(file.read::<f32>("a.weight", &[2, 3]).unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let big = [b"\x80\x02}".to_vec(), text("little_endian"), b"\x89s.".to_vec()].concat();
    let long = [u64::MAX.to_le_bytes().to_vec(), numbers()].concat();
    let half = Tensor { kind: "Half", ..TENSOR };
    let two_types = testing::dict(&[("a.weight", TENSOR.pickled()), ("b.weight", half.pickled())]);
    for (file, words) in [
        (older(b"\x80\x02K\x07.", &system, &dict, &keys, &storages), "version Int(7)"),
        (older(version, &big, &dict, &keys, &storages), "big-endian"),
        (older(version, &system, &dict, &keys, &storages[..30]), "ends within storage \"0\""),
        (older(version, &system, &dict, &keys, &long), "ends within storage \"0\""),
        (older(version, &system, &dict, b"\x80\x02].", &[]), "storage \"0\", which is not there"),
        (
            older(version, &system, &dict, &[b"]".to_vec(), text("9"), b"a.".to_vec()].concat(), &[]),
            "type of storage \"9\"",
        ),
        (older(version, &system, &two_types, &keys, &storages), "storage \"0\" has two types"),
        (older(version, &system, &dict, b"N.", &[]), "no list of storages"),
        (MAGIC.to_vec(), "ends too early"),
        (
            older(version, &system, &[b"(".to_vec(), b"N".repeat(MAX_PICKLE), b"t.".to_vec()].concat(), &keys, &[]),
            "the pickle ends too early",
        ),
    ] {
        let message = refused(file);
        assert!(message.contains(words), "{message}\nlacks {words}");
    }
}
