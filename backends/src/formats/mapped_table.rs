//! Static embedding whose rows are shared by tokens: Model2Vec's quantization of the vocabulary.
//!
//! The vector of a token is a row of the stored table times a factor. Readers see a table with a row for each token.

use super::tensor::{check_shape, reserved};
use super::tensor_files::TensorFiles;
use super::tensor_names::FACTORS;
use crate::error::LoadError;
use prefold_kernels::Element;
use rayon::prelude::*;

/// The tensor of the row of each token, as model2vec names it.
const ROWS: &str = "mapping";

/// Maximum bytes of the expanded tables of all models behind a Router: `MAX_BYTES`, or `MAX_SHARING` times the bytes of the stored tables. A
/// million tokens of 256 values take `MAX_BYTES`.
const MAX_BYTES: usize = 1 << 30;
const MAX_SHARING: usize = 4;

/// The tensors of a file with such a table.
#[derive(Debug)]
pub(crate) struct MappedTable {
    files: TensorFiles,
    name: String,
    tokens: usize,
    /// Shape of the stored table.
    stored: [usize; 2],
    /// `[tokens]`; a token has the row of its id without them.
    rows: Option<Vec<u32>>,
    /// `[tokens]`; 1 without them.
    factors: Option<Vec<f32>>,
}

impl MappedTable {
    /// `true` if the tensors include rows or factors.
    pub(crate) fn is_in(files: &TensorFiles) -> bool {
        files.integer_shape(ROWS).is_some() || files.float_shape(FACTORS).is_some()
    }

    /// The table of this name with its rows and factors; only their shapes if only the file's header is present.
    ///
    /// # Errors
    /// A tensor is missing or has another shape or type, or a row is not in the table.
    pub(crate) fn new(files: TensorFiles, name: &str) -> Result<Self, LoadError> {
        let missing = || LoadError::MissingTensor { file: files.description().to_owned(), name: name.to_owned() };
        let &[stored_rows, width] = files.shape(name).ok_or_else(missing)? else {
            return Err(LoadError::invalid(files.description(), format!("tensor `{name}` must be a matrix")));
        };
        let tokens = match files.integer_shape(ROWS) {
            None => stored_rows,
            Some(&[tokens]) => tokens,
            Some(_) => return Err(LoadError::invalid(files.description(), format!("`{ROWS}` must be a vector"))),
        };
        let has_values = files.has_values();
        let rows = match files.integer_shape(ROWS) {
            Some(_) if has_values => Some(files.integers(ROWS, stored_rows)?),
            _ => None,
        };
        let factors = match files.float_shape(FACTORS) {
            Some(shape) => {
                check_shape(files.description(), FACTORS, &[tokens], shape)?;
                has_values.then(|| files.floats(FACTORS, &[tokens])).transpose()?
            }
            None => None,
        };
        Ok(Self { name: name.to_owned(), tokens, stored: [stored_rows, width], rows, factors, files })
    }

    /// As [`Weights::unread`](super::Weights::unread).
    pub(super) fn unread(&self, read: &[String]) -> Vec<&str> {
        let mut unread = self.files.unread(read);
        unread.retain(|name| ![ROWS, FACTORS].contains(name));
        unread
    }

    /// Rows and width of the table that tokens see.
    pub(crate) fn shape(&self) -> [usize; 2] {
        [self.tokens, self.stored[1]]
    }

    /// Checks the tables of all sub-models together; the error names `file`.
    ///
    /// # Errors
    /// They are much larger than the stored tables.
    pub(crate) fn check_all<'a>(file: &str, tables: impl Iterator<Item = &'a Self>) -> Result<(), LoadError> {
        let add = |[seen, stored]: [usize; 2], table: &Self| {
            let [rows, width] = table.stored;
            [seen.saturating_add(bytes(table.tokens, width)), stored.saturating_add(bytes(rows, width))]
        };
        let [seen, stored] = tables.fold([0; 2], add);
        beyond_limit(seen, stored).map_or(Ok(()), |limit| {
            let problem =
                format!("`{ROWS}` expands the stored tables to {seen} bytes in all models, the limit is {limit}");
            Err(LoadError::invalid(file, problem))
        })
    }

    /// The files, for the other tensors.
    pub(super) fn files(&self) -> &TensorFiles {
        &self.files
    }

    /// As [`TensorFiles::check`].
    pub(super) fn check(&self, name: &str, shape: &[usize]) -> Result<(), LoadError> {
        if name == self.name {
            check_shape(self.files.description(), name, shape, &self.shape())
        } else {
            self.files.check(name, shape)
        }
    }

    /// As [`TensorFiles::read`].
    pub(super) fn read<T: Element>(&self, name: &str, shape: &[usize]) -> Result<Vec<T>, LoadError> {
        if name != self.name {
            return self.files.read(name, shape);
        }
        self.check(name, shape)?;
        let tokens: Vec<u32> = (0..self.tokens as u32).collect();
        let vectors = self.vectors(&tokens)?;
        let mut converted = reserved(vectors.len())?;
        vectors.into_par_iter().map(T::from_f32).collect_into_vec(&mut converted);
        Ok(converted)
    }

    /// As [`TensorFiles::read_rows`], in `f32`.
    pub(super) fn read_rows(&self, name: &str, shape: [usize; 2], rows: &[u32]) -> Result<Vec<f32>, LoadError> {
        if name != self.name {
            return self.files.read_rows(name, shape, rows);
        }
        self.check(name, &shape)?;
        self.vectors(rows)
    }

    /// The vectors of tokens, which are below the number of tokens.
    fn vectors(&self, tokens: &[u32]) -> Result<Vec<f32>, LoadError> {
        let row = |&token: &u32| self.rows.as_ref().map_or(token, |rows| rows[token as usize]);
        let rows: Vec<u32> = tokens.iter().map(row).collect();
        let mut vectors = self.files.read_rows(&self.name, self.stored, &rows)?;
        if let Some(factors) = &self.factors {
            for (vector, &token) in vectors.chunks_exact_mut(self.stored[1].max(1)).zip(tokens) {
                vector.iter_mut().for_each(|value| *value *= factors[token as usize]);
            }
        }
        Ok(vectors)
    }
}

/// Bytes of a table once it is read.
fn bytes(rows: usize, width: usize) -> usize {
    rows.saturating_mul(width).saturating_mul(size_of::<f32>())
}

/// The limit of the bytes that tokens see, if those are beyond it.
fn beyond_limit(seen: usize, stored: usize) -> Option<usize> {
    Some(MAX_BYTES.max(stored.saturating_mul(MAX_SHARING))).filter(|&limit| seen > limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_of_all_models_are_bounded_together_by_what_is_stored() {
        let wide = |tokens: usize, stored: [usize; 2]| MappedTable {
            files: TensorFiles::headers(&[]).unwrap(),
            name: "t".to_owned(),
            tokens,
            stored,
            rows: None,
            factors: None,
        };
        let table = |tokens: usize, rows: usize| wide(tokens, [rows, 1024]);
        let check = |tables: &[MappedTable]| MappedTable::check_all("x", tables.iter());
        // Potion's 500,000 tokens in 20,000 rows.
        check(&[wide(500_000, [20_000, 256])]).unwrap();
        check(&[wide(1 << 20, [1, 256])]).unwrap();
        check(&[table(4 << 20, 1 << 20)]).unwrap();
        check(&[table((4 << 20) + 1, 1 << 20)]).unwrap_err();
        let refused = check(&[wide(16 << 20, [1, 1 << 18])]).unwrap_err().to_string();
        assert!(refused.contains("17592186044416 bytes in all models, the limit is 1073741824"), "{refused}");
        let half = || table(1 << 17, 1);
        check(&[]).unwrap();
        check(&[half(), half()]).unwrap();
        let refused = check(&[half(), half(), table(1, 1)]).unwrap_err().to_string();
        assert!(refused.starts_with("x: `mapping` expands the stored tables to 1073745920 bytes"), "{refused}");
        assert!(refused.ends_with("in all models, the limit is 1073741824"), "{refused}");
        // Four times those stored.
        check(&[half(), half(), table(1 << 18, 1 << 17)]).unwrap();
        check(&[half(), half(), table(1 << 18, (1 << 17) - 3)]).unwrap_err();
        check(&[table(usize::MAX, 1), half()]).unwrap_err();
    }
}
