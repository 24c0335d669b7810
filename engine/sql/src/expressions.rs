//! Expressions over the rows of one table, as a table's constraints and generated columns have them.
//!
//! They are the select list of a query over that table, so that names, types and functions mean what they mean in any
//! query. Each is parsed for itself: what one of them says cannot change another.

use arrow::datatypes::SchemaRef;
use datafusion::sql::sqlparser::ast::{Ident, SelectItem, SetExpr};
use weir_core::{Error, Result};

use crate::analyzer::OutputMode;
use crate::compile::{CompiledQuery, QueryText, StreamInput, compile_with};
use crate::conf::SqlConf;
use crate::parser::{parse_expression, parse_query};

/// The name of the table in errors.
const TABLE: &str = "table";

/// A query of one stream with these columns, which yields one column per expression and a row for each row.
pub fn compile_expressions(conf: &SqlConf, columns: &SchemaRef, expressions: &[String]) -> Result<CompiledQuery> {
    let mut query = parse_query(&format!("SELECT 1 FROM `{TABLE}`"))?;
    let mut projection = Vec::with_capacity(expressions.len());
    for (number, text) in expressions.iter().enumerate() {
        projection.push(SelectItem::ExprWithAlias { expr: parse_expression(text)?, alias: Ident::new(format!("c{number}")) });
    }
    let SetExpr::Select(select) = query.body.as_mut() else {
        return Err(Error::config("PARSE_SYNTAX_ERROR", "the expressions make no query; write one at least"));
    };
    select.projection = projection;
    let table = StreamInput { name: TABLE.to_owned(), schema: columns.clone(), has_watermark: false };
    compile_with(conf, vec![table], Vec::new(), &QueryText::default(), || Ok(query), OutputMode::Append)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use arrow::array::{ArrayRef, AsArray, Int32Array, RecordBatch, StringArray};
    use arrow::datatypes::{DataType, Field, Int32Type, Schema};
    use std::sync::Arc;

    fn columns() -> SchemaRef {
        Arc::new(Schema::new(vec![Field::new("k", DataType::Utf8, true), Field::new("v", DataType::Int32, true)]))
    }

    #[tokio::test]
    async fn each_expression_is_a_column_over_all_rows() {
        let texts = ["V >= 0", "CASE WHEN k = 'a' THEN v * 2 END -- twice", "'q'"].map(str::to_owned);
        let query = compile_expressions(&SqlConf::default(), &columns(), &texts).unwrap();
        assert_eq!(query.required_columns(0), [0, 1]);
        let mut lane = query.lane().unwrap();
        lane.begin_batch(0).await.unwrap();
        let arrays: Vec<ArrayRef> = vec![Arc::new(StringArray::from(vec!["a", "b"])), Arc::new(Int32Array::from(vec![Some(-1), None]))];
        let found = lane.execute(0, RecordBatch::try_new(columns(), arrays).unwrap()).await.unwrap();
        assert_eq!((found.len(), found[0].num_rows()), (1, 2));
        let holds = found[0].column(0).as_boolean();
        assert!(!holds.value(0) && arrow::array::Array::is_null(holds, 1));
        assert_eq!(found[0].column(1).as_primitive::<Int32Type>().iter().collect::<Vec<_>>(), [Some(-2), None]);
        assert_eq!(found[0].column(2).as_string::<i32>().value(1), "q");
    }

    #[test]
    fn what_is_no_expression_over_a_row_is_refused() {
        let refused = |text: &str| compile_expressions(&SqlConf::default(), &columns(), &[text.to_owned()]).err().unwrap();
        assert_eq!(refused("v > 0, v < 9").condition(), "PARSE_SYNTAX_ERROR");
        assert_eq!(refused("w > 0").condition(), "UNRESOLVED_COLUMN.WITH_SUGGESTION");
        refused("max(v) > 0");
    }
}
