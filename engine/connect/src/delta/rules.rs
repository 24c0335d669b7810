//! What a table demands of its rows: NOT NULL, constraints, generated columns, defaults, numbers.
//!
//! Found in the table's schema and properties when a layout is planned (Delta protocol, "Column Invariants", "CHECK
//! Constraints", "Generated Columns", "Default Columns"), and planned there too, so that an expression that Weir does not
//! know is refused before a row is written. A generated column that the query yields is checked, one that it lacks is
//! computed. `enforce` applies the rules to rows. Decides only.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use deltalake_core::kernel::{DataType, MetadataValue, StructField, StructType};
use weir_core::{Error, Result};
use weir_decode::spark_type::spark_field_type_name;

use super::identity::Identity;
use super::length::Length;
use super::schema::same_name;
use crate::expressions::{Expressions, Planned};

const CONSTRAINT: &str = "delta.constraints.";
const GENERATED: &str = "delta.generationExpression";
const INVARIANT: &str = "delta.invariants";
const DEFAULT: &str = "CURRENT_DEFAULT";

/// The rules of a table for the rows of a query.
#[derive(Clone, Default)]
pub struct Rules {
    /// What the expressions are over; there for an existing table.
    pub over: Option<Over>,
    /// NOT NULL columns by path; nested ones only within structs.
    pub not_null: Vec<Vec<String>>,
    /// Columns whose texts have a greatest length.
    pub lengths: Vec<Length>,
    /// Columns that the query lacks and the table numbers.
    pub identity: Vec<Identity>,
    /// Columns that the query lacks and the table has a default for.
    pub defaults: Step<Fill>,
    /// Columns that the query lacks and the table computes from others.
    pub generated: Step<Fill>,
    /// What must be true for each row.
    pub checks: Step<Check>,
}

/// All columns of a table, and who evaluates expressions over them.
#[derive(Clone, Debug)]
pub struct Over {
    /// The columns in Arrow's types.
    pub columns: SchemaRef,
    /// Who evaluates.
    pub expressions: Arc<dyn Expressions>,
}

impl Over {
    /// Plans expressions over the columns.
    pub fn plan(&self, texts: &[String]) -> Result<Arc<dyn Planned>> {
        self.expressions.plan(&self.columns, texts)
    }

    fn cast(&self, field: &StructField, expression: String) -> Fill {
        let to = self.columns.field_with_name(field.name()).map(spark_field_type_name).unwrap_or_default();
        // With the line's end a comment in the text ends too.
        let expression = match field.data_type() {
            DataType::Primitive(_) => format!("CAST(({expression}\n) AS {to})"),
            _ => expression,
        };
        Fill { column: field.name().clone(), expression }
    }
}

/// Expressions that are evaluated together.
#[derive(Clone)]
pub struct Step<T> {
    /// What they are for.
    pub items: Vec<T>,
    /// The plan; there if there are any.
    pub plan: Option<Arc<dyn Planned>>,
}

/// A column and the expression of its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fill {
    /// The column.
    pub column: String,
    expression: String,
}

/// A condition that each row has to fulfil.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The condition as SQL.
    pub expression: String,
    /// Where it comes from.
    pub origin: Origin,
}

/// Where a condition comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A CHECK constraint, by name.
    Constraint(String),
    /// An invariant of a column.
    Invariant,
    /// A generated column that the query yields.
    Generated(String),
}

impl Rules {
    /// The rules of an existing table; `given` says which of its columns the query yields.
    pub fn plan(over: Over, table: &StructType, configuration: &BTreeMap<String, String>, given: impl Fn(&str) -> bool) -> Result<Self> {
        let mut rules = Self { not_null: not_null(table), ..Self::default() };
        let constraints = configuration.iter().filter_map(|(key, value)| Some((key.strip_prefix(CONSTRAINT)?, value)));
        let constraint =
            |(name, expression): (&str, &String)| Check { expression: expression.clone(), origin: Origin::Constraint(name.to_owned()) };
        rules.checks.items.extend(constraints.map(constraint));
        invariants(table, "", Nested::InStructs, &mut rules.checks.items)?;
        for field in table.fields() {
            let name = field.name();
            rules.lengths.extend(Length::of(field)?);
            rules.identity.extend(Identity::of(field, given(name))?);
            match (text_of(field, GENERATED), text_of(field, DEFAULT)) {
                (Some(expression), _) if given(name) => rules
                    .checks
                    .items
                    .push(Check { expression: format!("{} <=> ({expression}\n)", quoted(name)), origin: Origin::Generated(name.clone()) }),
                (Some(expression), _) => rules.generated.items.push(over.cast(field, expression)),
                (None, Some(expression)) if !given(name) => rules.defaults.items.push(over.cast(field, expression)),
                (None, _) => {}
            }
        }
        let fill = |fill: &Fill| fill.expression.clone();
        rules.defaults.plan(&over, fill, |fill| format!("the default of the column `{}`", fill.column))?;
        rules.generated.plan(&over, fill, |fill| format!("the generated column `{}`", fill.column))?;
        rules.checks.plan(&over, |check| check.expression.clone(), Check::name)?;
        rules.over = Some(over);
        Ok(rules)
    }

    /// Whether the table itself gives values to a column that the query lacks.
    pub fn fill(&self, column: &str) -> bool {
        self.generates(column)
            || self.defaults.items.iter().any(|fill| fill.column == column)
            || self.identity.iter().any(|identity| identity.column == column)
    }

    /// Whether a column that the query lacks is computed from others.
    pub fn generates(&self, column: &str) -> bool {
        self.generated.items.iter().any(|fill| fill.column == column)
    }

    /// The first NOT NULL path that `has` does not know and no default fills.
    pub fn missing(&self, has: impl Fn(&[String]) -> bool) -> Option<String> {
        let missing = self.not_null.iter().find(|path| !self.fill(&path[0]) && !has(path));
        missing.map(|path| path.join("."))
    }
}

impl<T> Step<T> {
    fn plan(&mut self, over: &Over, text: impl Fn(&T) -> String, told: impl Fn(&T) -> String) -> Result<()> {
        if self.items.is_empty() {
            return Ok(());
        }
        let texts: Vec<String> = self.items.iter().map(text).collect();
        self.plan = Some(match over.plan(&texts) {
            Ok(plan) => plan,
            // The one that is to blame is found by itself.
            Err(error) => {
                let blamed = self
                    .items
                    .iter()
                    .zip(&texts)
                    .find_map(|(item, text)| over.plan(std::slice::from_ref(text)).err().map(|error| (told(item), text.trim(), error)));
                let (told, text, error) = blamed.unwrap_or_else(|| ("an expression".to_owned(), "", error));
                let remedy = "drop it there, or write to a table without it";
                return Err(Error::config(
                    "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE",
                    format!("{told} ({text}) of the Delta table cannot be evaluated: {}; {remedy}", error.message()),
                ));
            }
        });
        Ok(())
    }
}

impl Check {
    /// The condition's name, as Delta has it.
    pub fn name(&self) -> String {
        match &self.origin {
            Origin::Constraint(name) => format!("CHECK constraint {name}"),
            Origin::Invariant => "CHECK constraint EXPRESSION".to_owned(),
            Origin::Generated(_) => "CHECK constraint Generated Column".to_owned(),
        }
    }
}

fn text_of(field: &StructField, key: &str) -> Option<String> {
    match field.metadata.get(key) {
        Some(MetadataValue::String(text)) if !text.is_empty() => Some(text.clone()),
        _ => None,
    }
}

/// Where fields are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Nested {
    /// At the top, or within structs alone: an expression can name them.
    InStructs,
    /// Within an array or a map.
    InElements,
}

/// The invariants of a schema's columns, those within structs too; the expression names them from the top.
fn invariants(schema: &StructType, parent: &str, nested: Nested, found: &mut Vec<Check>) -> Result<()> {
    for field in schema.fields() {
        let path = if parent.is_empty() { field.name().clone() } else { format!("{parent}.{}", field.name()) };
        if let Some(text) = text_of(field, INVARIANT) {
            found.push(invariant(&path, &text, nested)?);
        }
        invariants_within(field.data_type(), &path, nested, found)?;
    }
    Ok(())
}

fn invariants_within(data_type: &DataType, path: &str, nested: Nested, found: &mut Vec<Check>) -> Result<()> {
    match data_type {
        DataType::Struct(inner) => invariants(inner, path, nested, found),
        DataType::Array(array) => invariants_within(&array.element_type, &format!("{path}.element"), Nested::InElements, found),
        DataType::Map(map) => {
            invariants_within(&map.key_type, &format!("{path}.key"), Nested::InElements, found)?;
            invariants_within(&map.value_type, &format!("{path}.value"), Nested::InElements, found)
        }
        _ => Ok(()),
    }
}

/// `{"expression": {"expression": "v > 3"}}`.
fn invariant(path: &str, text: &str, nested: Nested) -> Result<Check> {
    let parsed: Option<serde_json::Value> = serde_json::from_str(text).ok();
    let expression = parsed.as_ref().and_then(|value| value.pointer("/expression/expression")).and_then(serde_json::Value::as_str);
    let why = match (expression, nested) {
        (Some(expression), Nested::InStructs) => {
            return Ok(Check { expression: expression.to_owned(), origin: Origin::Invariant });
        }
        (Some(_), Nested::InElements) => "an invariant within an array or a map, which no expression over a row can judge",
        (None, _) => "an invariant that Weir cannot read",
    };
    Err(Error::config(
        "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE",
        format!("the column `{path}` of the Delta table has {why} ({text}); write to a table without it"),
    ))
}

fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// The NOT NULL columns of a schema, those within structs too; Delta has none within arrays and maps.
fn not_null(schema: &StructType) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for field in schema.fields() {
        if !field.is_nullable() {
            found.push(vec![field.name().clone()]);
        }
        if let DataType::Struct(inner) = field.data_type() {
            let nested = not_null(inner).into_iter();
            found.extend(nested.map(|path| std::iter::once(field.name().clone()).chain(path).collect::<Vec<_>>()));
        }
    }
    found
}

/// Whether a schema has a column, by path.
pub fn has_path(schema: &StructType, path: &[String]) -> bool {
    let Some((first, rest)) = path.split_first() else { return true };
    schema.fields().find(|field| same_name(field.name(), first)).is_some_and(|field| match field.data_type() {
        DataType::Struct(inner) => has_path(inner, rest),
        _ => rest.is_empty(),
    })
}

impl<T> Default for Step<T> {
    fn default() -> Self {
        Self { items: Vec::new(), plan: None }
    }
}

/// Rules are the same if they say the same.
impl PartialEq for Rules {
    fn eq(&self, other: &Self) -> bool {
        self.not_null == other.not_null
            && self.lengths == other.lengths
            && self.identity == other.identity
            && self.defaults.items == other.defaults.items
            && self.generated.items == other.generated.items
            && self.checks.items == other.checks.items
    }
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rules")
            .field("not_null", &self.not_null)
            .field("lengths", &self.lengths)
            .field("identity", &self.identity)
            .field("defaults", &self.defaults.items)
            .field("generated", &self.generated.items)
            .field("checks", &self.checks.items)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use arrow::datatypes::{DataType as ArrowType, Field, Schema};

    fn plan(constraints: &[(&str, &str)], given: &[&str]) -> Result<Rules> {
        let nested = r#"{"expression":{"expression":"st.b > 3"}}"#;
        let fields = [
            StructField::not_null("a", DataType::INTEGER),
            StructField::nullable("b", DataType::INTEGER).with_metadata([(INVARIANT, nested)]),
        ];
        let inner = DataType::try_struct_type(fields).unwrap();
        let table = StructType::try_new([
            StructField::not_null("k", DataType::STRING).with_metadata([("CURRENT_DEFAULT", "'q'")]),
            StructField::nullable("v", DataType::INTEGER).with_metadata([("delta.invariants", r#"{"expression":{"expression":"v > 3"}}"#)]),
            StructField::nullable("g", DataType::INTEGER).with_metadata([("delta.generationExpression", "v * 2 -- twice")]),
            StructField::nullable("c", DataType::STRING).with_metadata([("__CHAR_VARCHAR_TYPE_STRING", "varchar(2)")]),
            StructField::nullable("st", inner),
        ])
        .unwrap();
        let pair = ArrowType::Struct(["a", "b"].map(|name| Field::new(name, ArrowType::Int32, true)).to_vec().into());
        let fields = [("k", ArrowType::Utf8), ("v", ArrowType::Int32), ("g", ArrowType::Int32), ("c", ArrowType::Utf8), ("st", pair)];
        let columns = Arc::new(Schema::new(fields.map(|(name, of)| Field::new(name, of, true)).to_vec()));
        let over = Over { columns, expressions: crate::testing::expressions() };
        let configuration = constraints.iter().map(|(name, text)| (format!("delta.constraints.{name}"), (*text).to_owned())).collect();
        Rules::plan(over, &table, &configuration, |name| given.contains(&name))
    }

    #[test]
    fn what_the_query_lacks_is_filled_and_what_it_yields_is_checked() {
        let names = |rules: &Rules| rules.checks.items.iter().map(Check::name).collect::<Vec<_>>();
        let lacking = plan(&[("pos", "v >= 0")], &["v"]).unwrap();
        assert_eq!(names(&lacking), ["CHECK constraint pos", "CHECK constraint EXPRESSION", "CHECK constraint EXPRESSION"]);
        assert_eq!(lacking.checks.items[2].expression, "st.b > 3");
        assert_eq!(lacking.lengths.iter().map(|length| length.declared.as_str()).collect::<Vec<_>>(), ["varchar(2)"]);
        assert!(lacking.fill("k") && lacking.fill("g") && lacking.generates("g") && !lacking.generates("k") && !lacking.fill("v"));
        assert_eq!(lacking.not_null, [vec!["k".to_owned()], vec!["st".into(), "a".into()]]);
        assert_eq!(lacking.missing(|_| false), Some("st.a".to_owned()));
        assert_eq!(lacking.missing(|path| path[0] == "st"), None);
        let giving = plan(&[], &["k", "v", "g"]).unwrap();
        assert_eq!(giving.missing(|_| false), Some("k".to_owned()));
        assert!(names(&giving).contains(&"CHECK constraint Generated Column".to_owned()) && !giving.fill("g"));
        assert!(lacking != giving && lacking == plan(&[("pos", "v >= 0")], &["v"]).unwrap());
        assert!(lacking != plan(&[("pos", "v >= 1")], &["v"]).unwrap());
    }

    #[test]
    fn the_expression_that_cannot_be_evaluated_is_named() {
        let error = plan(&[("fine", "v > 0"), ("odd", "no_such(v) > 0")], &["v"]).unwrap_err();
        assert_eq!(error.condition(), "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE");
        assert!(error.message().starts_with("CHECK constraint odd (no_such(v) > 0) of the Delta table"), "{error}");
    }

    #[test]
    fn an_invariant_that_no_expression_over_a_row_can_judge_is_refused() {
        let text = r#"{"expression":{"expression":"v > 3"}}"#;
        let field = || StructField::nullable("v", DataType::INTEGER).with_metadata([(INVARIANT, text)]);
        let inner = || DataType::try_struct_type([field()]).unwrap();
        let of = |data_type: DataType| {
            let mut found = Vec::new();
            invariants(&StructType::try_new([StructField::nullable("c", data_type)]).unwrap(), "", Nested::InStructs, &mut found)
                .map(|()| found.len())
        };
        assert_eq!(of(DataType::try_struct_type([StructField::nullable("s", inner())]).unwrap()).unwrap(), 1);
        for (within, path) in [
            (deltalake_core::kernel::ArrayType::new(inner(), true).into(), "`c.element.v`"),
            (deltalake_core::kernel::MapType::new(DataType::STRING, inner(), true).into(), "`c.value.v`"),
        ] {
            let error = of(within).unwrap_err();
            assert!(error.condition() == "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE" && error.message().contains(path), "{error}");
        }
    }
}
