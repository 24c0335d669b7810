//! CASE, AND, OR and NOT: what decides whether something is evaluated.
//!
//! Spark decides row by row; a part that may fail is never evaluated on a row
//! that does not need it.

use std::sync::Arc;

use arrow::array::{ArrayRef, NullArray};
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Expr, Operator, binary_expr};
use datafusion::sql::sqlparser::ast::{BinaryOperator, CaseWhen, Expr as Sql};
use weir_core::Error;

use super::expr::Cx;
use super::{Analyzer, Result, Typed};
use crate::types::quoted_type;
use crate::udf::Rows;

impl Analyzer<'_> {
    pub(super) fn case(&self, operand: Option<&Sql>, whens: &[CaseWhen], otherwise: Option<&Sql>, cx: &Cx) -> Result<Typed> {
        let mut shown = String::from("CASE");
        let mut conditions = Vec::new();
        let mut results = Vec::new();
        for when in whens {
            let condition = match operand {
                Some(operand) => self.binary(operand, &BinaryOperator::Eq, &when.condition, cx)?,
                None => {
                    let condition = self.expr(&when.condition, cx)?;
                    // Unlike elsewhere, Spark wants a real boolean here.
                    if condition.ty != DataType::Boolean {
                        return Err(Error::config(
                            "DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE",
                            format!(
                                "the condition \"{}\" of WHEN should be \"BOOLEAN\" but is {}; write a comparison, or CAST it",
                                condition.name,
                                quoted_type(&condition.ty)
                            ),
                        ));
                    }
                    condition
                }
            };
            let result = self.expr(&when.result, cx)?;
            shown.push_str(&format!(" WHEN {} THEN {}", condition.name, result.name));
            conditions.push(condition);
            results.push(result);
        }
        if let Some(otherwise) = otherwise {
            let result = self.expr(otherwise, cx)?;
            shown.push_str(&format!(" ELSE {}", result.name));
            results.push(result);
        }
        shown.push_str(" END");
        Ok(self.branches(conditions, results)?.named(shown))
    }

    /// CASE over analysed parts; one more result than conditions is the ELSE.
    pub fn branches(&self, conditions: Vec<Typed>, results: Vec<Typed>) -> Result<Typed> {
        let results = self.to_common("CASE WHEN", results)?;
        let ty = results[0].ty.clone();
        let spark_type = results[0].spark_type.clone();
        let fallible = conditions.iter().chain(&results).any(|t| t.fallible);
        if ty == DataType::Boolean && fallible {
            return Ok(self.held_case(conditions, results));
        }
        if ty == DataType::Null && fallible {
            // What only fails is chosen as a value of some type.
            let results = results.into_iter().map(|r| self.cast(r, &DataType::Int8)).collect::<Result<Vec<_>>>()?;
            let chosen = self.branches(conditions, results)?;
            return Ok(
                self.call("only_null", "", DataType::Null, &[chosen], |rows: Rows| Ok(Arc::new(NullArray::new(rows.len)) as ArrayRef))
            );
        }
        let mut results = results.into_iter();
        let when_then_expr = conditions.into_iter().zip(results.by_ref()).map(|(c, r)| (Box::new(c.expr), Box::new(r.expr))).collect();
        let else_expr = results.next().map(|r| Box::new(r.expr));
        let expr = Expr::Case(datafusion::logical_expr::Case { expr: None, when_then_expr, else_expr });
        let mut typed = Typed::new(expr, ty, "CASE");
        typed.spark_type = spark_type;
        typed.fallible = fallible;
        Ok(typed)
    }

    /// CASE over conditions that may fail. DataFusion turns a boolean CASE into
    /// AND and OR, which evaluate every part on every row; one over numbers it
    /// leaves alone.
    fn held_case(&self, conditions: Vec<Typed>, results: Vec<Typed>) -> Typed {
        let as_number = |value: Typed| {
            let call = self.call("boolean_to_tinyint", "", DataType::Int8, &[value], |rows: Rows| {
                Ok(arrow::compute::cast(&rows.args[0], &DataType::Int8)?)
            });
            Box::new(call.expr)
        };
        let mut results = results.into_iter();
        let when_then_expr = conditions.into_iter().zip(results.by_ref()).map(|(c, r)| (Box::new(c.expr), as_number(r))).collect();
        let else_expr = results.next().map(as_number);
        let case = Expr::Case(datafusion::logical_expr::Case { expr: None, when_then_expr, else_expr });
        let case = Typed::new(case, DataType::Int8, "CASE").may_fail();
        self.call("tinyint_to_boolean", "", DataType::Boolean, &[case], |rows: Rows| {
            Ok(arrow::compute::cast(&rows.args[0], &DataType::Boolean)?)
        })
    }

    /// `value IN (list)` where the list may fail: from left to right until one is equal, and not at all beside a NULL.
    pub(super) fn one_by_one(&self, value: Typed, list: Vec<Typed>) -> Result<Typed> {
        let is_null = |of: &Typed| Typed::new(Expr::IsNull(Box::new(of.expr.clone())), DataType::Boolean, "").failing_like([of]);
        let answer = |known: Option<bool>| Typed::literal(ScalarValue::Boolean(known), "");
        let (mut conditions, mut results) = (vec![is_null(&value)], vec![answer(None)]);
        for item in &list {
            conditions.push(self.compare(value.clone(), Operator::Eq, item.clone(), "=")?);
            results.push(answer(Some(true)));
        }
        for item in &list {
            conditions.push(is_null(item));
            results.push(answer(None));
        }
        results.push(answer(Some(false)));
        Ok(self.held_case(conditions, results))
    }

    /// `a AND b`, which does not evaluate a failing `b` where `a` is false.
    pub fn and(&self, a: Typed, b: Typed) -> Result<Typed> {
        Ok(self.logical(a, b, Operator::And))
    }

    /// `a OR b`, which does not evaluate a failing `b` where `a` is true.
    pub fn or(&self, a: Typed, b: Typed) -> Result<Typed> {
        Ok(self.logical(a, b, Operator::Or))
    }

    /// Spark decides row by row whether the right side is needed; DataFusion would
    /// evaluate it for all rows.
    fn logical(&self, a: Typed, b: Typed, op: Operator) -> Typed {
        let word = if op == Operator::And { "AND" } else { "OR" };
        let name = format!("({} {word} {})", a.name, b.name);
        let both = binary_expr(a.expr.clone(), op, b.expr.clone());
        let both = Typed::new(both, DataType::Boolean, "").failing_like([&a, &b]);
        if !b.fallible {
            return both.named(name);
        }
        let known = if op == Operator::And { Expr::IsFalse(Box::new(a.expr)) } else { Expr::IsTrue(Box::new(a.expr)) };
        let known = Typed::new(known, DataType::Boolean, "");
        let decided = Typed::literal(ScalarValue::Boolean(Some(op == Operator::Or)), "");
        self.held_case(vec![known], vec![decided, both]).named(name)
    }
}

/// `NOT value`.
pub fn negation(value: Typed) -> Typed {
    let name = format!("(NOT {})", value.name);
    let fallible = value.fallible;
    let mut typed = Typed::new(Expr::Not(Box::new(value.expr)), DataType::Boolean, name);
    typed.fallible = fallible;
    typed
}
