//! An analysed expression: DataFusion's expression with Spark's type and name.

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Expr;

use crate::types::spark_type_name;

/// An expression with its type decided.
#[derive(Clone, Debug)]
pub struct Typed {
    /// The expression.
    pub expr: Expr,
    /// Its type.
    pub ty: DataType,
    /// Spark's name of the type where the Arrow type alone does not tell it.
    pub spark_type: Option<String>,
    /// Spark's name of the expression as an output column.
    pub name: String,
    /// Whether evaluating it on a row may fail.
    pub fallible: bool,
}

impl Typed {
    /// An expression that cannot fail.
    pub fn new(expr: Expr, ty: DataType, name: impl Into<String>) -> Self {
        Self { expr, ty, spark_type: None, name: name.into(), fallible: false }
    }

    /// A literal.
    pub fn literal(value: ScalarValue, name: impl Into<String>) -> Self {
        let ty = value.data_type();
        Self::new(Expr::Literal(value, None), ty, name)
    }

    /// The untyped NULL.
    pub fn null() -> Self {
        Self::literal(ScalarValue::Null, "NULL")
    }

    /// A string literal.
    pub fn string(text: impl Into<String>) -> Self {
        let text = text.into();
        Self::literal(ScalarValue::Utf8(Some(text.clone())), text)
    }

    /// An int literal.
    pub fn int(value: i32) -> Self {
        Self::literal(ScalarValue::Int32(Some(value)), value.to_string())
    }

    /// The value, if this is a literal.
    pub fn value(&self) -> Option<&ScalarValue> {
        match &self.expr {
            Expr::Literal(value, _) => Some(value),
            _ => None,
        }
    }

    /// Whether this is the literal NULL, of whatever type.
    pub fn is_null(&self) -> bool {
        self.value().is_some_and(ScalarValue::is_null)
    }

    /// The text, if this is a string literal.
    pub fn text(&self) -> Option<&str> {
        match self.value() {
            Some(ScalarValue::Utf8(Some(text))) => Some(text),
            _ => None,
        }
    }

    /// The number, if this is an integral literal.
    pub fn integer(&self) -> Option<i64> {
        match self.value()? {
            ScalarValue::Int8(Some(v)) => Some(i64::from(*v)),
            ScalarValue::Int16(Some(v)) => Some(i64::from(*v)),
            ScalarValue::Int32(Some(v)) => Some(i64::from(*v)),
            ScalarValue::Int64(Some(v)) => Some(*v),
            _ => None,
        }
    }

    /// Spark's name of the type.
    pub fn type_name(&self) -> String {
        self.spark_type.clone().unwrap_or_else(|| spark_type_name(&self.ty))
    }

    /// Another column name.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Another Spark type name.
    #[must_use]
    pub fn with_spark_type(mut self, name: impl Into<String>) -> Self {
        self.spark_type = Some(name.into());
        self
    }

    /// Marks that evaluation may fail on a row.
    #[must_use]
    pub fn may_fail(mut self) -> Self {
        self.fallible = true;
        self
    }

    /// Takes over fallibility of the parts.
    #[must_use]
    pub fn failing_like<'t>(mut self, parts: impl IntoIterator<Item = &'t Typed>) -> Self {
        self.fallible |= parts.into_iter().any(|p| p.fallible);
        self
    }
}
