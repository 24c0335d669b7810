//! Operators between two values.

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Expr, Operator, binary_expr};
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr as Sql};
use weir_core::Error;

use super::expr::Cx;
use super::{Analyzer, Result, Typed, coerce};
use crate::parser::wrong;
use crate::types::quoted_type;
use crate::udf::Rows;

impl Analyzer<'_> {
    /// `left op right`.
    pub(super) fn binary(&self, left: &Sql, op: &BinaryOperator, right: &Sql, cx: &Cx) -> Result<Typed> {
        let (l, r) = (self.expr(left, cx)?, self.expr(right, cx)?);
        match op {
            BinaryOperator::And => self.and(self.boolean(l)?, self.boolean(r)?),
            BinaryOperator::Or => self.or(self.boolean(l)?, self.boolean(r)?),
            BinaryOperator::Eq => self.compare(l, Operator::Eq, r, "="),
            BinaryOperator::NotEq => {
                let equal = self.compare(l, Operator::Eq, r, "=")?;
                Ok(super::case::negation(equal))
            }
            BinaryOperator::Lt => self.compare(l, Operator::Lt, r, "<"),
            BinaryOperator::LtEq => self.compare(l, Operator::LtEq, r, "<="),
            BinaryOperator::Gt => self.compare(l, Operator::Gt, r, ">"),
            BinaryOperator::GtEq => self.compare(l, Operator::GtEq, r, ">="),
            BinaryOperator::Spaceship => self.compare(l, Operator::IsNotDistinctFrom, r, "<=>"),
            BinaryOperator::Plus => self.function_call("+", vec![l, r]),
            BinaryOperator::Minus => self.function_call("-", vec![l, r]),
            BinaryOperator::Multiply => self.function_call("*", vec![l, r]),
            BinaryOperator::Divide => self.function_call("/", vec![l, r]),
            BinaryOperator::Modulo => self.function_call("%", vec![l, r]),
            BinaryOperator::MyIntegerDivide | BinaryOperator::DuckIntegerDivide => self.function_call("div", vec![l, r]),
            BinaryOperator::BitwiseAnd => self.function_call("&", vec![l, r]),
            BinaryOperator::BitwiseOr => self.function_call("|", vec![l, r]),
            BinaryOperator::BitwiseXor | BinaryOperator::PGExp => self.function_call("^", vec![l, r]),
            BinaryOperator::StringConcat => self.function_call("concat", vec![l, r]),
            other => Err(wrong(&format!("Spark SQL has no operator '{other}'"))),
        }
    }

    /// A comparison of analysed values.
    pub fn compare(&self, l: Typed, op: Operator, r: Typed, shown: &str) -> Result<Typed> {
        let name = format!("({} {shown} {})", l.name, r.name);
        let ty = coerce::for_comparison(&l.ty, &r.ty, self.conf.ansi).ok_or_else(|| {
            Error::config(
                "DATATYPE_MISMATCH.BINARY_OP_DIFF_TYPES",
                format!(
                    "cannot resolve \"{name}\": the left and right operands have incompatible types ({} and {}); CAST one of them",
                    quoted_type(&l.ty),
                    quoted_type(&r.ty)
                ),
            )
        })?;
        super::orderable::check_order(shown, &name, &ty)?;
        if ty == DataType::Null && !l.fallible && !r.fallible {
            let value = ScalarValue::Boolean((op == Operator::IsNotDistinctFrom).then_some(true));
            return Ok(Typed::literal(value, name));
        }
        let ty = comparable_type(ty);
        let (l, r) = (self.cast(l, &ty)?, self.cast(r, &ty)?);
        let fallible = l.fallible || r.fallible;
        let (l, r) = if needs_no_normalising(&l) || needs_no_normalising(&r) { (l, r) } else { (self.comparable(l), self.comparable(r)) };
        let mut typed = Typed::new(binary_expr(l.expr, op, r.expr), DataType::Boolean, name);
        typed.fallible = fallible;
        Ok(typed)
    }

    /// Floats with one zero and one NaN, so that total order is Spark's order.
    pub fn comparable(&self, value: Typed) -> Typed {
        if !coerce::is_float(&value.ty) {
            return value;
        }
        let ty = value.ty.clone();
        let (name, fallible) = (value.name.clone(), value.fallible);
        let mut typed =
            self.call("normalize_nan_and_zero", "", ty, &[value], |rows: Rows| crate::functions::math::normalize(&rows.args[0]));
        typed.name = name;
        typed.fallible = fallible;
        typed
    }

    fn function_call(&self, name: &str, args: Vec<Typed>) -> Result<Typed> {
        crate::functions::build(self, name, args)
            .unwrap_or_else(|| Err(Error::config("UNRESOLVED_ROUTINE", format!("there is no operator `{name}`"))))
    }
}

/// What only fails has the type of NULL, which nothing can be compared in; any other serves.
pub(super) fn comparable_type(ty: DataType) -> DataType {
    if ty == DataType::Null { DataType::Boolean } else { ty }
}

/// A literal that is neither zero nor NaN compares right with any float.
fn needs_no_normalising(value: &Typed) -> bool {
    match &value.expr {
        Expr::Literal(ScalarValue::Float64(Some(v)), _) => *v != 0.0 && !v.is_nan(),
        Expr::Literal(ScalarValue::Float32(Some(v)), _) => *v != 0.0 && !v.is_nan(),
        _ => !coerce::is_float(&value.ty),
    }
}
