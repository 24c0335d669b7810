//! Lengths of CHAR and VARCHAR, at the top and in structs, arrays and maps.
//!
//! Delta knows only STRING; the declared type of a column is kept beside it as text, the whole of it for a nested one:
//! `struct<a:varchar(3),b:array<char(2)>>`. Lengths are counted in characters. A text that promises a length and cannot be
//! read refuses the table. Decides only.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::DataType;
use deltalake_core::kernel::{MetadataValue, StructField};
use weir_core::{Error, Result};

use super::schema::same_name;

const DECLARED: &str = "__CHAR_VARCHAR_TYPE_STRING";

/// A column whose texts have a greatest length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Length {
    /// The column.
    pub column: String,
    /// Its declared type.
    pub declared: String,
    bound: Bound,
}

/// Where in a value texts are bounded.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Bound {
    Text(usize),
    Struct { fields: usize, bounded: Vec<(usize, String, Bound)> },
    List(Box<Bound>),
    Map { keys: Option<Box<Bound>>, values: Option<Box<Bound>> },
}

impl Length {
    /// The column's lengths, if it has any.
    pub fn of(field: &StructField) -> Result<Option<Self>> {
        let Some(MetadataValue::String(declared)) = field.metadata.get(DECLARED) else { return Ok(None) };
        let mut parser = Parser { rest: declared };
        let bound = parser.bound().filter(|_| parser.rest.trim().is_empty());
        match bound {
            Some(bound) => Ok(bound.map(|bound| Self { column: field.name().clone(), declared: declared.clone(), bound })),
            None if !declared.to_ascii_lowercase().contains("char") => Ok(None),
            None => Err(Error::config(
                "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE",
                format!(
                    "the column `{}` of the Delta table has lengths that Weir cannot read ({declared}); write to a table without them",
                    field.name()
                ),
            )),
        }
    }

    /// The first row with a text that is too long.
    pub fn first_broken(&self, column: &ArrayRef) -> Option<usize> {
        (0..column.len()).find(|row| self.bound.is_broken(column.as_ref(), *row))
    }
}

impl Bound {
    fn is_broken(&self, array: &dyn Array, row: usize) -> bool {
        if array.is_null(row) {
            return false;
        }
        match (self, array.data_type()) {
            (Self::Text(most), DataType::Utf8) => {
                let text = array.as_string::<i32>().value(row);
                text.len() > *most && text.chars().count() > *most
            }
            (Self::Struct { fields, bounded }, DataType::Struct(_)) => {
                let array = array.as_struct();
                bounded.iter().any(|(at, name, bound)| {
                    // A renamed field keeps its place, one beside a new field its name.
                    let named = || array.column_names().iter().position(|column| same_name(column, name));
                    let at = if array.num_columns() == *fields { Some(*at) } else { named() };
                    at.is_some_and(|at| bound.is_broken(array.column(at).as_ref(), row))
                })
            }
            (Self::List(element), DataType::List(_)) => {
                let array = array.as_list::<i32>();
                element.is_broken_in(array.values().as_ref(), &array.value_offsets()[row..])
            }
            (Self::Map { keys, values }, DataType::Map(_, _)) => {
                let array = array.as_map();
                let offsets = &array.value_offsets()[row..];
                keys.as_ref().is_some_and(|keys| keys.is_broken_in(array.keys().as_ref(), offsets))
                    || values.as_ref().is_some_and(|values| values.is_broken_in(array.values().as_ref(), offsets))
            }
            _ => false,
        }
    }

    fn is_broken_in(&self, elements: &dyn Array, offsets: &[i32]) -> bool {
        let at = |offset: i32| usize::try_from(offset).unwrap_or(0);
        (at(offsets[0])..at(offsets[1])).any(|element| self.is_broken(elements, element))
    }
}

/// Reads a type as Spark's catalog writes it.
struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    /// The bounds of the type that comes next; the outer `None` is a text that is no type.
    fn bound(&mut self) -> Option<Option<Bound>> {
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ' ').unwrap_or(self.rest.len());
        let name = self.rest[..end].trim().to_ascii_lowercase();
        self.rest = &self.rest[end..];
        Some(match name.as_str() {
            "" => return None,
            "char" | "varchar" | "character" => Some(Bound::Text(self.arguments()?.trim().parse().ok()?)),
            "array" => {
                self.eat('<')?;
                let element = self.bound()?;
                self.eat('>')?;
                element.map(|element| Bound::List(Box::new(element)))
            }
            "map" => {
                self.eat('<')?;
                let keys = self.bound()?.map(Box::new);
                self.eat(',')?;
                let values = self.bound()?.map(Box::new);
                self.eat('>')?;
                (keys.is_some() || values.is_some()).then_some(Bound::Map { keys, values })
            }
            "struct" => self.fields()?,
            _ => {
                if self.rest.starts_with('(') {
                    self.arguments()?;
                }
                None
            }
        })
    }

    fn fields(&mut self) -> Option<Option<Bound>> {
        self.eat('<')?;
        let mut bounded = Vec::new();
        let mut fields = 0;
        while self.eat('>').is_none() {
            if fields > 0 {
                self.eat(',')?;
            }
            let name = self.name()?;
            self.eat(':')?;
            bounded.extend(self.bound()?.map(|bound| (fields, name, bound)));
            fields += 1;
        }
        Some((!bounded.is_empty()).then_some(Bound::Struct { fields, bounded }))
    }

    fn name(&mut self) -> Option<String> {
        self.rest = self.rest.trim_start();
        let Some(mut quoted) = self.rest.strip_prefix('`') else {
            let (name, _) = self.rest.split_once(':')?;
            self.rest = &self.rest[name.len()..];
            return Some(name.trim().to_owned());
        };
        let mut name = String::new();
        loop {
            let (part, rest) = quoted.split_once('`')?;
            name.push_str(part);
            match rest.strip_prefix('`') {
                Some(more) => {
                    name.push('`');
                    quoted = more;
                }
                None => {
                    self.rest = rest;
                    return Some(name);
                }
            }
        }
    }

    fn arguments(&mut self) -> Option<String> {
        self.eat('(')?;
        let (text, rest) = self.rest.split_once(')')?;
        self.rest = rest;
        Some(text.to_owned())
    }

    fn eat(&mut self, what: char) -> Option<()> {
        self.rest = self.rest.trim_start().strip_prefix(what)?;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use arrow::array::{ListArray, MapBuilder, StringArray, StringBuilder, StructArray};
    use arrow::buffer::{NullBuffer, OffsetBuffer};
    use arrow::datatypes::Field;
    use deltalake_core::kernel::DataType as KernelType;
    use std::sync::Arc;

    fn length(declared: &str) -> Result<Option<Length>> {
        Length::of(&StructField::nullable("c", KernelType::STRING).with_metadata([(DECLARED, MetadataValue::String(declared.to_owned()))]))
    }

    fn texts(values: &[Option<&str>]) -> ArrayRef {
        Arc::new(StringArray::from(values.to_vec()))
    }

    fn pair(fields: &[&str], columns: Vec<ArrayRef>, there: Option<Vec<bool>>) -> ArrayRef {
        let fields: Vec<Field> = fields.iter().zip(&columns).map(|(name, of)| Field::new(*name, of.data_type().clone(), true)).collect();
        Arc::new(StructArray::try_new(fields.into(), columns, there.map(NullBuffer::from)).unwrap())
    }

    #[test]
    fn a_text_is_too_long_by_its_characters_wherever_it_is() {
        let broken = |declared: &str, column: &ArrayRef| length(declared).unwrap().unwrap().first_broken(column);
        let column = texts(&[None, Some("äöü"), Some("abcd")]);
        assert_eq!((broken("varchar(3)", &column), broken("CHAR(4)", &column)), (Some(2), None));
        let st = pair(&["x", "a"], vec![texts(&[Some("long"), Some("l")]), texts(&[Some("abcd"), Some("abcd")])], Some(vec![false, true]));
        assert_eq!(broken("struct<x:string,a:varchar(3)>", &st), Some(1), "what a null holds does not count");
        assert_eq!(broken("struct<x:varchar(4),`was``a`:char(4)>", &st), None, "a renamed field keeps its place");
        assert_eq!(broken("struct<a:varchar(2)>", &st), Some(1), "beside a new field it keeps its name");
        let item = Arc::new(Field::new("item", DataType::Utf8, true));
        let list: ArrayRef =
            Arc::new(ListArray::new(item, OffsetBuffer::from_lengths([0, 2, 1]), texts(&[Some("a"), None, Some("abc")]), None));
        assert_eq!((broken("array<varchar(2)>", &list), broken("array<varchar(3)>", &list)), (Some(2), None));
        assert_eq!(broken("array<varchar(2)>", &list.slice(2, 1)), Some(0));
        let nested = pair(&["l"], vec![list], None);
        assert_eq!(broken("struct<l:array<char(2)>>", &nested), Some(2));
        let mut map = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
        map.keys().append_value("key");
        map.values().append_value("v");
        map.append(true).unwrap();
        let map: ArrayRef = Arc::new(map.finish());
        let found = ["map<varchar(2),string>", "map<string,varchar(1)>", "map<varchar(3),char(1)>"].map(|declared| broken(declared, &map));
        assert_eq!(found, [Some(0), None, None]);
    }

    #[test]
    fn what_promises_no_length_is_free_and_what_cannot_be_read_is_refused() {
        for free in ["string", "struct<a:int,b:decimal(10,2),c:timestamp_ntz>", "array<map<string,int>>", "odd<"] {
            assert_eq!(length(free).unwrap(), None, "{free}");
        }
        for odd in ["varchar", "varchar(x)", "struct<a:varchar(3)", "array<char(2)>>", "map<char(2)>"] {
            let error = length(odd).unwrap_err();
            assert!(error.condition() == "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE" && error.message().contains(odd), "{error}");
        }
        assert_eq!(Length::of(&StructField::nullable("c", KernelType::STRING)).unwrap(), None);
    }
}
