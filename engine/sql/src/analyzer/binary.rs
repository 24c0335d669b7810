//! Operators between two values.

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, Operator, binary_expr};
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr as Sql};
use weir_core::Error;

use super::expr::Cx;
use super::{Analyzer, Result, Typed, coerce};
use crate::parser::wrong;
use crate::planned::constant;
use crate::types::quoted_type;
use crate::udf::Rows;

/// Whether a comparison looks at its right side where the left one is NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BesideNull {
    /// It does.
    Looks,
    /// It does not.
    Stops,
}

impl Analyzer<'_> {
    /// `left op right`.
    pub(super) fn binary(&self, left: &Sql, op: &BinaryOperator, right: &Sql, cx: &Cx) -> Result<Typed> {
        let (l, r) = (self.expr(left, cx)?, self.expr(right, cx)?);
        // The keys of a join are computed on either side by itself, in Spark too.
        let joins = cx.clause == "JOIN" || cx.clause == "WHERE" && cx.scope.is_joined();
        let beside_null = if joins { BesideNull::Looks } else { BesideNull::Stops };
        let compare = |l, op, r, shown| self.compare_keys(l, op, r, shown, beside_null);
        match op {
            BinaryOperator::And => self.and(self.boolean(l)?, self.boolean(r)?),
            BinaryOperator::Or => self.or(self.boolean(l)?, self.boolean(r)?),
            BinaryOperator::Eq => compare(l, Operator::Eq, r, "="),
            BinaryOperator::NotEq => Ok(super::case::negation(compare(l, Operator::Eq, r, "=")?)),
            BinaryOperator::Lt => compare(l, Operator::Lt, r, "<"),
            BinaryOperator::LtEq => compare(l, Operator::LtEq, r, "<="),
            BinaryOperator::Gt => compare(l, Operator::Gt, r, ">"),
            BinaryOperator::GtEq => compare(l, Operator::GtEq, r, ">="),
            BinaryOperator::Spaceship => compare(l, Operator::IsNotDistinctFrom, r, "<=>"),
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

    /// A comparison of analysed values, which does not look at a failing right side beside a NULL.
    pub fn compare(&self, l: Typed, op: Operator, r: Typed, shown: &str) -> Result<Typed> {
        self.compare_keys(l, op, r, shown, BesideNull::Stops)
    }

    /// A comparison of analysed values.
    pub(super) fn compare_keys(&self, l: Typed, op: Operator, r: Typed, shown: &str, beside_null: BesideNull) -> Result<Typed> {
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
        if op != Operator::IsNotDistinctFrom && (l.is_null() || r.is_null()) {
            return Ok(Typed::literal(ScalarValue::Boolean(None), name));
        }
        let ty = comparable_type(ty);
        let (l, r) = (self.cast(l, &ty)?, self.cast(r, &ty)?);
        let (first, second) = (l.clone(), r.clone());
        let fallible = l.fallible || r.fallible;
        let (l, r) = if needs_no_normalising(&l) || needs_no_normalising(&r) { (l, r) } else { (self.comparable(l), self.comparable(r)) };
        let mut typed = Typed::new(binary_expr(l.expr, op, r.expr), DataType::Boolean, name);
        typed.fallible = fallible;
        match beside_null {
            BesideNull::Stops if op != Operator::IsNotDistinctFrom => self.where_known(&first, &second, typed),
            _ => Ok(typed),
        }
    }

    /// `value` of an operator whose second side may fail: computed only where the side that Spark evaluates first is not NULL.
    pub fn where_known(&self, first: &Typed, second: &Typed, value: Typed) -> Result<Typed> {
        let may_fail = second.fallible && constant(&second.expr).is_none();
        if !may_fail || first.value().is_some() || steps(&first.expr) > MOST_STEPS {
            return Ok(value);
        }
        let known = Typed::new(Expr::IsNotNull(Box::new(first.expr.clone())), DataType::Boolean, "").failing_like([first]);
        let (name, spark_type) = (value.name.clone(), value.spark_type.clone());
        let mut guarded = self.branches(vec![known], vec![value])?.named(name).may_fail();
        guarded.spark_type = spark_type;
        Ok(guarded)
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

/// The longest side that is looked at for a NULL before the other side is evaluated. It is evaluated twice then, so
/// that a longer one would make long chains cost much; beside it the other side is evaluated on every row.
const MOST_STEPS: usize = 8;

/// The number of parts of an expression.
fn steps(expr: &Expr) -> usize {
    let mut count = 0;
    let counted = expr.apply(|_| {
        count += 1;
        Ok(if count > MOST_STEPS { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    if counted.is_ok() { count } else { usize::MAX }
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
