//! The part of Python's pickle that files of tensors are written in. It builds values and calls nothing: a global is a name of
//! a short list, and whatever else a pickle asks for is refused by its name.
//!
//! CPython's `Lib/pickletools.py` describes the opcodes. Each makes a bounded number of values, so memory is bounded by the
//! pickle's length; lists and dicts are numbered nodes, so nothing is recursive.

use super::global::Global;
use std::collections::HashMap;

/// Maximum objects of a pickle. A checkpoint has about ten for each tensor.
const MAX_NODES: usize = 1 << 18;

/// Maximum bytes of a string: a tensor's name, which may occur in many places.
const MAX_TEXT: usize = 1024;

/// A value on the stack.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value<'a> {
    None,
    Bool(bool),
    Int(i64),
    Text(&'a str),
    Global(Global),
    /// An object by its number.
    Node(usize),
    /// A number that no tensor needs.
    Other,
}

/// An object.
#[derive(Debug)]
pub(super) enum Node<'a> {
    Tuple(Vec<Value<'a>>),
    List(Vec<Value<'a>>),
    Dict(Vec<(Value<'a>, Value<'a>)>),
    /// What a persistent id names, a tuple.
    Persistent(Vec<Value<'a>>),
    /// A call of a global that makes a tensor, with its arguments.
    Tensor(Vec<Value<'a>>),
}

/// A pickle that was read.
#[derive(Debug)]
pub(super) struct Pickle<'a> {
    pub(super) root: Value<'a>,
    nodes: Vec<Node<'a>>,
    /// Bytes that the pickle takes.
    pub(super) length: usize,
}

impl<'a> Pickle<'a> {
    /// Reads the pickle at the beginning of `bytes`.
    ///
    /// # Errors
    /// It is malformed, or asks for something that is not allowed.
    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, String> {
        let mut machine = Machine { bytes, at: 0, stack: vec![], marks: vec![], memo: HashMap::new(), nodes: vec![] };
        loop {
            let start = machine.at;
            let opcode = machine.byte()?;
            if opcode == b'.' {
                break;
            }
            machine.step(opcode).map_err(|problem| format!("{problem} (byte {start} of the pickle)"))?;
        }
        Ok(Self { root: machine.pop()?, nodes: machine.nodes, length: machine.at })
    }

    /// The object of a value, if it is one.
    pub(super) fn node(&self, value: Value<'a>) -> Option<&Node<'a>> {
        match value {
            Value::Node(index) => self.nodes.get(index),
            _ => None,
        }
    }

    /// The items of a tuple or list.
    pub(super) fn items(&self, value: Value<'a>) -> Option<&[Value<'a>]> {
        match self.node(value)? {
            Node::Tuple(items) | Node::List(items) => Some(items),
            _ => None,
        }
    }
}

struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    stack: Vec<Value<'a>>,
    /// Lengths of the stack.
    marks: Vec<usize>,
    memo: HashMap<u32, Value<'a>>,
    nodes: Vec<Node<'a>>,
}

impl<'a> Machine<'a> {
    fn step(&mut self, opcode: u8) -> Result<(), String> {
        let value = match opcode {
            0x80 => return self.byte().map(drop),
            b'(' => {
                self.marks.push(self.stack.len());
                return Ok(());
            }
            b'q' | b'r' => {
                let slot = self.index(opcode == b'r')?;
                let value = *self.stack.last().ok_or("the stack is empty")?;
                self.memo.insert(slot, value);
                return Ok(());
            }
            b'a' | b'e' | b's' | b'u' | b'b' => return self.fill(opcode),
            b'h' | b'j' => {
                let slot = self.index(opcode == b'j')?;
                *self.memo.get(&slot).ok_or_else(|| format!("nothing was stored as number {slot}"))?
            }
            b'N' => Value::None,
            0x88 => Value::Bool(true),
            0x89 => Value::Bool(false),
            b'K' => Value::Int(self.byte()?.into()),
            b'M' => Value::Int(u16::from_le_bytes(self.array()?).into()),
            b'J' => Value::Int(i32::from_le_bytes(self.array()?).into()),
            0x8a => {
                let length = self.byte()?;
                long(self.take(length.into())?)
            }
            b'G' => {
                self.take(8)?;
                Value::Other
            }
            b'X' | b'T' => {
                let length = u32::from_le_bytes(self.array()?);
                self.text(length as usize)?
            }
            b'U' => {
                let length = self.byte()?;
                self.text(length.into())?
            }
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                let global = Global::find(module, name).ok_or_else(|| format!("refuses the global {module}.{name}"))?;
                Value::Global(global)
            }
            b'}' => self.node(Node::Dict(vec![]))?,
            b']' => self.node(Node::List(vec![]))?,
            b')' => self.node(Node::Tuple(vec![]))?,
            0x85..=0x87 => self.tuple(usize::from(opcode - 0x84))?,
            b't' => {
                let items = self.marked()?;
                self.node(Node::Tuple(items))?
            }
            b'Q' => {
                let id = self.pop()?;
                let items = self.take_tuple(id)?;
                self.node(Node::Persistent(items))?
            }
            b'R' => {
                let arguments = self.pop()?;
                let callee = self.pop()?;
                self.call(callee, arguments)?
            }
            other => return Err(format!("refuses the opcode {}", name(other))),
        };
        self.stack.push(value);
        Ok(())
    }

    /// The opcodes that put values into the object below them.
    fn fill(&mut self, opcode: u8) -> Result<(), String> {
        let items = match opcode {
            b'a' | b'b' => vec![self.pop()?],
            b's' => {
                let value = self.pop()?;
                vec![self.pop()?, value]
            }
            _ => self.marked()?,
        };
        let Some(&Value::Node(target)) = self.stack.last() else {
            return Err("adds items to a value that is not an object".to_owned());
        };
        match (opcode, &mut self.nodes[target]) {
            (b'a' | b'e', Node::List(list)) => list.extend(items),
            (b's' | b'u', Node::Dict(entries)) if items.len().is_multiple_of(2) => {
                let (pairs, _) = items.as_chunks::<2>();
                entries.extend(pairs.iter().map(|&[key, value]| (key, value)));
            }
            // Attributes of an OrderedDict: the versions of modules.
            (b'b', Node::Dict(_)) => {}
            _ => return Err(format!("the opcode {} does not fit its object", name(opcode))),
        }
        Ok(())
    }

    /// What a call of a global would make.
    fn call(&mut self, callee: Value<'a>, arguments: Value<'a>) -> Result<Value<'a>, String> {
        let Value::Global(global) = callee else { return Err("calls a value that is not a global".to_owned()) };
        let arguments = self.take_tuple(arguments)?;
        match (global, arguments.as_slice()) {
            (Global::OrderedDict, []) => self.node(Node::Dict(vec![])),
            (Global::RebuildTensor, _) => self.node(Node::Tensor(arguments)),
            (Global::RebuildParameter, &[data, ..]) => Ok(data),
            _ => Err(format!("refuses the call of {global} with {} arguments", arguments.len())),
        }
    }

    fn node(&mut self, node: Node<'a>) -> Result<Value<'a>, String> {
        if self.nodes.len() == MAX_NODES {
            return Err(format!("has more than {MAX_NODES} objects"));
        }
        self.nodes.push(node);
        Ok(Value::Node(self.nodes.len() - 1))
    }

    fn tuple(&mut self, count: usize) -> Result<Value<'a>, String> {
        let start =
            self.stack.len().checked_sub(count).filter(|&start| start >= self.floor()).ok_or("a tuple lacks items")?;
        let items = self.stack.split_off(start);
        self.node(Node::Tuple(items))
    }

    /// The items of a tuple, copied: it may be used again.
    fn take_tuple(&self, value: Value<'a>) -> Result<Vec<Value<'a>>, String> {
        /// Items of the longest tuple that a call or a persistent id has.
        const LONGEST: usize = 8;
        match value {
            Value::Node(index) => match &self.nodes[index] {
                Node::Tuple(items) if items.len() <= LONGEST => Ok(items.clone()),
                Node::Tuple(items) => Err(format!("a tuple of {} arguments, at most {LONGEST} are read", items.len())),
                _ => Err("expected a tuple".to_owned()),
            },
            _ => Err("expected a tuple".to_owned()),
        }
    }

    /// The values above the last mark.
    fn marked(&mut self) -> Result<Vec<Value<'a>>, String> {
        let mark = self.marks.pop().ok_or("there is no mark")?;
        Ok(self.stack.split_off(mark))
    }

    /// The part of the stack that belongs to an open mark, and must stay.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn pop(&mut self) -> Result<Value<'a>, String> {
        let value = if self.stack.len() > self.floor() { self.stack.pop() } else { None };
        value.ok_or_else(|| "the stack is empty".to_owned())
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let taken = self.bytes[self.at..].get(..count).ok_or("the pickle ends too early")?;
        self.at += count;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (array, _) = self.bytes[self.at..].split_first_chunk().ok_or("the pickle ends too early")?;
        self.at += N;
        Ok(*array)
    }

    fn byte(&mut self) -> Result<u8, String> {
        self.array().map(|[byte]| byte)
    }

    fn index(&mut self, is_long: bool) -> Result<u32, String> {
        if is_long { self.array().map(u32::from_le_bytes) } else { self.byte().map(u32::from) }
    }

    fn text(&mut self, length: usize) -> Result<Value<'a>, String> {
        if length > MAX_TEXT {
            return Err(format!("a text has {length} bytes, at most {MAX_TEXT} are read"));
        }
        str::from_utf8(self.take(length)?).map(Value::Text).map_err(|_| "a text is not UTF-8".to_owned())
    }

    fn line(&mut self) -> Result<&'a str, String> {
        let longest = &self.bytes[self.at..self.bytes.len().min(self.at + MAX_TEXT + 1)];
        let length = longest.iter().position(|&byte| byte == b'\n').ok_or("a name has no end, or is too long")?;
        let line = self.take(length)?;
        self.at += 1;
        str::from_utf8(line).map_err(|_| "a name is not UTF-8".to_owned())
    }
}

/// A little-endian number in two's complement.
fn long<'a>(bytes: &[u8]) -> Value<'a> {
    let negative = bytes.last().is_some_and(|&last| last >= 0x80);
    let mut wide = [if negative { 0xFF } else { 0 }; 8];
    match wide.get_mut(..bytes.len()) {
        Some(low) => {
            low.copy_from_slice(bytes);
            Value::Int(i64::from_le_bytes(wide))
        }
        None => Value::Other,
    }
}

/// An opcode for messages.
fn name(opcode: u8) -> String {
    let known = match opcode {
        b'i' => "INST",
        b'o' => "OBJ",
        b'P' => "PERSID",
        b'B' | b'C' | 0x8e => "BINBYTES",
        b'I' => "INT",
        b'L' => "LONG",
        b'F' => "FLOAT",
        b'S' => "STRING",
        b'V' => "UNICODE",
        b'd' => "DICT",
        b'l' => "LIST",
        b'g' => "GET",
        b'p' => "PUT",
        b'0' => "POP",
        b'1' => "POP_MARK",
        b'2' => "DUP",
        b'a' => "APPEND",
        b'e' => "APPENDS",
        b's' => "SETITEM",
        b'u' => "SETITEMS",
        b'b' => "BUILD",
        0x81 | 0x92 => "NEWOBJ",
        0x82..=0x84 => "EXT",
        0x8b => "LONG4",
        0x8c | 0x8d => "UNICODE of protocol 4",
        0x8f..=0x91 => "SET",
        0x93 => "STACK_GLOBAL",
        0x94 => "MEMOIZE",
        0x95 => "FRAME",
        _ => return format!("{opcode:#04x}"),
    };
    format!("{known} ({opcode:#04x})")
}
