//! Files of `torch.save`, written byte by byte.

use std::collections::BTreeMap;

/// An archive of stored entries.
pub(crate) fn zip(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for (name, content) in entries {
        let start = file.len() as u32;
        let lengths: Vec<u8> = [content.len() as u32, content.len() as u32, name.len() as u32]
            .iter()
            .flat_map(|n| n.to_le_bytes())
            .collect();
        file.extend([b"PK\x03\x04".as_slice(), &[0; 14], &lengths, name.as_bytes(), content].concat());
        directory.extend([b"PK\x01\x02".as_slice(), &[0; 16], &lengths, &[0; 10], &start.to_le_bytes()].concat());
        directory.extend(name.as_bytes());
    }
    let place = [directory.len() as u32, file.len() as u32].map(u32::to_le_bytes).concat();
    file.extend(&directory);
    file.extend([b"PK\x05\x06".as_slice(), &[0; 8], &place, &[0; 2]].concat());
    file
}

pub(crate) fn text(text: &str) -> Vec<u8> {
    [b"X", (text.len() as u32).to_le_bytes().as_slice(), text.as_bytes()].concat()
}

pub(crate) fn int(value: usize) -> Vec<u8> {
    [b"\x8a\x08".as_slice(), &(value as u64).to_le_bytes()].concat()
}

pub(crate) fn tuple(items: &[usize]) -> Vec<u8> {
    [b"(".to_vec(), items.iter().flat_map(|&item| int(item)).collect(), b"t".to_vec()].concat()
}

/// A call of `_rebuild_tensor_v2`.
pub(crate) struct Tensor<'a> {
    pub(crate) kind: &'a str,
    pub(crate) key: &'a str,
    /// Elements of the storage.
    pub(crate) length: usize,
    pub(crate) offset: usize,
    pub(crate) shape: &'a [usize],
    pub(crate) strides: &'a [usize],
}

/// Numbers 0 to 5 in two rows, if storage 0 has them.
pub(crate) const TENSOR: Tensor<'_> =
    Tensor { kind: "Float", key: "0", length: 6, offset: 0, shape: &[2, 3], strides: &[3, 1] };

impl Tensor<'_> {
    pub(crate) fn pickled(&self) -> Vec<u8> {
        let &Self { kind, key, length, offset, shape, strides } = self;
        let storage = [text("storage"), format!("ctorch\n{kind}Storage\n").into(), text(key), text("cpu"), int(length)];
        let id = [b"(".to_vec(), storage.concat(), b"tQ".to_vec()].concat();
        let hooks = b"\x89ccollections\nOrderedDict\n)Rt".to_vec();
        let arguments = [id, int(offset), tuple(shape), tuple(strides), hooks].concat();
        [b"ctorch._utils\n_rebuild_tensor_v2\n(".to_vec(), arguments, b"R".to_vec()].concat()
    }
}

/// The pickle of a dict.
pub(crate) fn dict(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let entries: Vec<u8> = entries.iter().flat_map(|(name, value)| [text(name), value.clone()].concat()).collect();
    [b"\x80\x02ccollections\nOrderedDict\n)Rq\x00(".to_vec(), entries, b"u}q\x01X\x01\0\0\0mK\x01sb.".to_vec()].concat()
}

/// A file of tensors of float32.
pub(crate) fn save(tensors: &BTreeMap<String, (Vec<usize>, Vec<u8>)>) -> Vec<u8> {
    let keys: Vec<String> = (0..tensors.len()).map(|key| key.to_string()).collect();
    let pickled = tensors.iter().zip(&keys).map(|((name, (shape, bytes)), key)| {
        let strides: Vec<usize> = (1..=shape.len()).map(|first| shape[first..].iter().product()).collect();
        let length = bytes.len() / size_of::<f32>();
        (name.as_str(), Tensor { kind: "Float", key, length, offset: 0, shape, strides: &strides }.pickled())
    });
    let pickle = dict(&pickled.collect::<Vec<_>>());
    let names: Vec<String> = keys.iter().map(|key| format!("model/data/{key}")).collect();
    let storages = names.iter().map(String::as_str).zip(tensors.values().map(|(_, bytes)| bytes.as_slice()));
    zip(&[("model/data.pkl", pickle.as_slice())].into_iter().chain(storages).collect::<Vec<_>>())
}
