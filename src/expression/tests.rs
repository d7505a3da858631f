//! Expressions compared with the answers of SQLite, and differences from SQLite.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use zipfdb_sql::query::{
    Affinity, BinaryOperator, Collation, Comparison, Expression, ExpressionId, Function, Matcher,
};

use super::compare::compare;
use super::function::call;
use super::*;
use crate::runtime::interrupt::Interrupt;
use crate::runtime::memory::{self, ValueMemory};
use crate::{Error, Result, Value};

fn id(index: usize) -> ExpressionId {
    ExpressionId(u32::try_from(index).unwrap())
}

/// Evaluates the last of `expressions` on a row.
fn evaluate_on(expressions: &[Expression], row: &[Value]) -> Result<Value> {
    let layout = Layout::whole(row.len(), 0);
    let program = Program::new(
        expressions,
        &layout,
        3,
        &Interrupt::never(),
        &ValueMemory::default(),
    )?;
    Evaluator::of(&program).take(row, id(expressions.len() - 1))
}

/// The expression with a name of the table, whose operands are the expressions 0, 1, ... before it.
fn expressions(name: &str, operands: Vec<Expression>) -> Vec<Expression> {
    let count = operands.len();
    let ids = |range: std::ops::Range<usize>| range.map(id).collect::<Vec<_>>();
    let compare = |comparison, collation| Expression::Compare {
        comparison,
        left: id(0),
        right: id(1),
        collation,
    };
    let binary = |operator| Expression::Binary {
        operator,
        left: id(0),
        right: id(1),
    };
    let cast = |affinity| Expression::Cast {
        operand: id(0),
        affinity,
    };
    let matched = |matcher, negated| Expression::Match {
        matcher,
        text: id(1),
        pattern: id(0),
        escape: (count > 2).then_some(id(2)),
        negated,
    };
    let call = |function| Expression::Call {
        function,
        arguments: ids(0..count),
        collation: Collation::Binary,
    };
    let mut expressions = operands;
    let affinity = match name {
        "integer affinity=" => Some(Affinity::Integer),
        "text affinity=" => Some(Affinity::Text),
        _ => None,
    };
    if let Some(affinity) = affinity {
        expressions.push(Expression::Affine {
            operand: id(1),
            affinity,
        });
        expressions.push(Expression::Compare {
            comparison: Comparison::Equal,
            left: id(0),
            right: id(2),
            collation: Collation::Binary,
        });
        return expressions;
    }
    expressions.push(match name {
        "+" => binary(BinaryOperator::Add),
        "-" => binary(BinaryOperator::Subtract),
        "*" => binary(BinaryOperator::Multiply),
        "/" => binary(BinaryOperator::Divide),
        "%" => binary(BinaryOperator::Remainder),
        "||" => binary(BinaryOperator::Concatenate),
        "AND" => binary(BinaryOperator::And),
        "OR" => binary(BinaryOperator::Or),
        "=" => compare(Comparison::Equal, Collation::Binary),
        "<>" => compare(Comparison::NotEqual, Collation::Binary),
        "<" => compare(Comparison::Less, Collation::Binary),
        "<=" => compare(Comparison::LessOrEqual, Collation::Binary),
        ">" => compare(Comparison::Greater, Collation::Binary),
        ">=" => compare(Comparison::GreaterOrEqual, Collation::Binary),
        "IS" => compare(Comparison::Is, Collation::Binary),
        "IS NOT" => compare(Comparison::IsNot, Collation::Binary),
        "nocase=" => compare(Comparison::Equal, Collation::NoCase),
        "nocase<" => compare(Comparison::Less, Collation::NoCase),
        "NOT" => Expression::Not(id(0)),
        "negate" => Expression::Negate(id(0)),
        "isnull" | "notnull" => Expression::IsNull {
            operand: id(0),
            negated: name == "notnull",
        },
        "cast INTEGER" => cast(Affinity::Integer),
        "cast REAL" => cast(Affinity::Real),
        "cast TEXT" => cast(Affinity::Text),
        "cast BLOB" => cast(Affinity::Blob),
        "cast NUMERIC" => cast(Affinity::Numeric),
        "in" | "not in" => Expression::In {
            operand: id(0),
            list: ids(1..count),
            negated: name == "not in",
            collation: Collation::Binary,
        },
        "case" => Expression::Case {
            branches: vec![(id(0), id(1))],
            otherwise: Some(id(2)),
        },
        "like" | "like escape" => matched(Matcher::Like, false),
        "not like" => matched(Matcher::Like, true),
        "glob" => matched(Matcher::Glob, false),
        "abs" => call(Function::Abs),
        "char" => call(Function::Char),
        "concat" => call(Function::Concat),
        "concat_ws" => call(Function::ConcatWs),
        "coalesce" => call(Function::Coalesce),
        "hex" => call(Function::Hex),
        "ifnull" => call(Function::IfNull),
        "iif" => call(Function::Iif),
        "instr" => call(Function::Instr),
        "length" => call(Function::Length),
        "lower" => call(Function::Lower),
        "ltrim" => call(Function::LeftTrim),
        "max" => call(Function::Max),
        "min" => call(Function::Min),
        "nullif" => call(Function::NullIf),
        "quote" => call(Function::Quote),
        "replace" => call(Function::Replace),
        "round" => call(Function::Round),
        "rtrim" => call(Function::RightTrim),
        "sign" => call(Function::Sign),
        "substr" => call(Function::Substr),
        "trim" => call(Function::Trim),
        "typeof" => call(Function::TypeOf),
        "unicode" => call(Function::Unicode),
        "ceil" => call(Function::Ceiling),
        "date" => call(Function::Date),
        "datetime" => call(Function::DateTime),
        "exp" => call(Function::Exponential),
        "floor" => call(Function::Floor),
        "format" => call(Function::Format),
        "json_extract" => call(Function::JsonExtract),
        "->" => call(Function::JsonPart),
        "->>" => call(Function::JsonValue),
        "julianday" => call(Function::JulianDay),
        "ln" => call(Function::NaturalLogarithm),
        "log" => call(Function::Logarithm),
        "log10" => call(Function::Logarithm10),
        "log2" => call(Function::Logarithm2),
        "pow" => call(Function::Power),
        "sqrt" => call(Function::SquareRoot),
        "strftime" => call(Function::Strftime),
        "time" => call(Function::Time),
        "unixepoch" => call(Function::UnixEpoch),
        "upper" => call(Function::Upper),
        _ => panic!("no expression is called {name}"),
    });
    expressions
}

fn parse(literal: &str) -> Value {
    let bytes = |digits: &str| -> Vec<u8> {
        let pairs = digits.as_bytes().chunks(2);
        pairs
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    };
    let rest = &literal[1..];
    match literal.as_bytes()[0] {
        b'N' => Value::Null,
        b'I' => Value::Integer(rest.parse().unwrap()),
        b'R' => Value::Real(f64::from_bits(u64::from_str_radix(rest, 16).unwrap())),
        b'T' => Value::Text(String::from_utf8(bytes(rest)).unwrap()),
        b'B' => Value::Blob(bytes(rest)),
        _ => panic!("{literal}"),
    }
}

/// Equal to the bit, except that 0 has one sign.
fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Real(a), Value::Real(b)) => a == b,
        _ => a == b,
    }
}

#[test]
fn answers_are_those_of_sqlite() {
    let mut wrong = Vec::new();
    let mut cases = 0;
    let tables = [
        include_str!("fixtures/sqlite.txt"),
        include_str!("fixtures/sqlite_functions.txt"),
    ];
    for line in tables.iter().flat_map(|table| table.lines()) {
        if line.starts_with('#') {
            continue;
        }
        let fields: Vec<&str> = line.split('\t').collect();
        let [name, operands @ .., answer] = fields.as_slice() else {
            panic!("{line}")
        };
        let row: Vec<Value> = operands.iter().map(|operand| parse(operand)).collect();
        let columns = (0..row.len()).map(Expression::Column).collect();
        let constants = (row.iter().cloned())
            .map(|value| Expression::Value(value.into()))
            .collect();
        cases += 1;
        // Once evaluated on a row, once folded.
        for operands in [columns, constants] {
            let got = evaluate_on(&expressions(name, operands), &row);
            let is_right = match (&got, *answer) {
                (Err(_), "error") => true,
                (Ok(value), answer) => answer != "error" && is_same(value, &parse(answer)),
                _ => false,
            };
            if !is_right {
                let answer = (*answer != "error").then(|| parse(answer));
                wrong.push(format!("{name} of {row:?}: {got:?}, SQLite: {answer:?}"));
            }
        }
    }
    assert!(cases > 11_000);
    let shown = &wrong[..wrong.len().min(40)];
    assert!(wrong.is_empty(), "{} of {cases}: {shown:#?}", wrong.len());
}

#[test]
fn what_is_not_needed_is_not_evaluated() {
    // abs of the smallest integer fails wherever it is evaluated.
    let failing = || {
        vec![
            Expression::Column(0),
            Expression::Call {
                function: Function::Abs,
                arguments: vec![id(0)],
                collation: Collation::Binary,
            },
            Expression::Value(Value::Integer(0).into()),
            Expression::Value(Value::Integer(1).into()),
        ]
    };
    let call = |function, arguments: &[usize]| Expression::Call {
        function,
        arguments: arguments.iter().map(|&index| id(index)).collect(),
        collation: Collation::Binary,
    };
    let binary = |operator, left, right| Expression::Binary {
        operator,
        left: id(left),
        right: id(right),
    };
    let row = [Value::Integer(i64::MIN)];
    for (last, expected) in [
        (binary(BinaryOperator::And, 2, 1), 0),
        (binary(BinaryOperator::Or, 3, 1), 1),
        (call(Function::Coalesce, &[2, 1]), 0),
        (call(Function::Iif, &[3, 2, 1]), 0),
        (call(Function::Iif, &[2, 1, 3]), 1),
        (
            Expression::Case {
                branches: vec![(id(2), id(1)), (id(3), id(3)), (id(1), id(1))],
                otherwise: Some(id(1)),
            },
            1,
        ),
    ] {
        let mut expressions = failing();
        expressions.push(last);
        let value = evaluate_on(&expressions, &row).unwrap();
        assert_eq!(value, Value::Integer(expected));
    }
    let mut expressions = failing();
    expressions.push(binary(BinaryOperator::And, 3, 1));
    let error = evaluate_on(&expressions, &row).unwrap_err();
    assert_eq!(
        error.to_string(),
        "abs(-9223372036854775808): integer overflow"
    );
}

#[test]
fn a_chain_of_a_hundred_thousand_operators_takes_no_stack() {
    let mut expressions = vec![Expression::Column(0)];
    for index in 0..100_000 {
        expressions.push(Expression::Binary {
            operator: BinaryOperator::Add,
            left: id(index),
            right: id(0),
        });
    }
    let value = evaluate_on(&expressions, &[Value::Integer(2)]).unwrap();
    assert_eq!(value, Value::Integer(200_002));
}

#[test]
fn an_operand_that_is_used_twice_is_evaluated_once() {
    let mut expressions = vec![Expression::Column(0)];
    for index in 0..64 {
        expressions.push(Expression::Case {
            branches: vec![(id(index), id(index))],
            otherwise: Some(id(index)),
        });
    }
    let value = evaluate_on(&expressions, &[Value::Integer(1)]).unwrap();
    assert_eq!(value, Value::Integer(1));
}

#[test]
fn case_of_all_of_unicode_is_known() {
    let call = |function, text: &str| {
        let call = Expression::Call {
            function,
            arguments: vec![id(0)],
            collation: Collation::Binary,
        };
        evaluate_on(&[Expression::Column(0), call], &[Value::from(text)]).unwrap()
    };
    assert_eq!(call(Function::Upper, "stra\u{df}e"), Value::from("STRASSE"));
    assert_eq!(
        call(Function::Lower, "\u{c9}T\u{c9}"),
        Value::from("\u{e9}t\u{e9}")
    );
    assert_eq!(call(Function::Binding, ""), Value::Integer(3));
    let row = [Value::from("\u{c9}t\u{c9}"), Value::from("\u{e9}T\u{e9}")];
    let columns = vec![Expression::Column(0), Expression::Column(1)];
    let equal = evaluate_on(&expressions("nocase=", columns), &row).unwrap();
    assert_eq!(equal, Value::Integer(1));
}

#[test]
fn a_regular_expression_matches_anywhere_and_is_checked_before_any_row() {
    let matched = |pattern: Expression, row: &[Value]| {
        let expressions = [
            Expression::Column(0),
            pattern,
            Expression::Match {
                matcher: Matcher::Regexp,
                text: id(0),
                pattern: id(1),
                escape: None,
                negated: false,
            },
        ];
        evaluate_on(&expressions, row)
    };
    let constant = |pattern: &str| Expression::Value(Value::from(pattern).into());
    assert_eq!(
        matched(constant("b+"), &[Value::from("abbc")]).unwrap(),
        Value::Integer(1)
    );
    assert_eq!(
        matched(constant("b+"), &[Value::Blob(b"\xff\x62".to_vec())]).unwrap(),
        Value::Integer(1)
    );
    assert_eq!(matched(constant("b"), &[Value::Null]).unwrap(), Value::Null);
    let row = [Value::from("x1y"), Value::from(r"\d")];
    assert_eq!(
        matched(Expression::Column(1), &row).unwrap(),
        Value::Integer(1)
    );
    let layout = Layout::whole(1, 0);
    let bad = expressions("glob", vec![constant("["), Expression::Column(0)]);
    assert!(
        Program::new(
            &bad,
            &layout,
            0,
            &Interrupt::never(),
            &ValueMemory::default()
        )
        .is_ok()
    );
    let mut bad = bad;
    bad[2] = Expression::Match {
        matcher: Matcher::Regexp,
        text: id(1),
        pattern: id(0),
        escape: None,
        negated: false,
    };
    assert!(
        Program::new(
            &bad,
            &layout,
            0,
            &Interrupt::never(),
            &ValueMemory::default()
        )
        .is_err()
    );
}

#[test]
fn functions_on_a_large_text_end_with_an_interrupt() {
    let interrupt = Interrupt::never();
    interrupt.handle().interrupt();
    let text = Value::Text("abcdefg ".repeat(1 << 16));
    let (some, set) = (Value::from("a"), Value::from("abcdefg "));
    let missing = Value::from("gh");
    for (function, arguments) in [
        (Function::Instr, vec![&text, &missing]),
        (Function::Replace, vec![&text, &some, &set]),
        (Function::Lower, vec![&text]),
        (Function::Upper, vec![&text]),
        (Function::Trim, vec![&text, &set]),
        (Function::LeftTrim, vec![&text, &set]),
        (Function::RightTrim, vec![&text, &set]),
    ] {
        let (memory, mut pace) = (ValueMemory::default(), interrupt.pace());
        let answer = call(
            function,
            &arguments,
            Collation::Binary,
            0,
            &memory,
            &mut pace,
        );
        let is_interrupted = matches!(answer, Err(Error::Interrupted));
        assert!(is_interrupted, "{function:?}");
    }
}

#[test]
fn parts_of_a_large_text_do_not_show_in_its_case() {
    // A capital sigma is another letter at the end of a word, and words stand across the borders of parts.
    let text = "\u{39f}\u{394}\u{39f}\u{3a3} \u{3a3}A\u{3a3}. ".repeat(40_000);
    let (memory, mut pace) = (ValueMemory::default(), Interrupt::never().pace());
    for (function, change) in [
        (Function::Lower, str::to_lowercase as fn(&str) -> String),
        (Function::Upper, str::to_uppercase),
    ] {
        let value = Value::Text(text.clone());
        let changed = call(
            function,
            &[&value],
            Collation::Binary,
            0,
            &memory,
            &mut pace,
        );
        assert!(
            changed.unwrap() == Value::Text(change(&text)),
            "{function:?}"
        );
    }
}

#[test]
fn a_value_is_as_long_as_was_said_before_it_was_made() {
    let text = |text: &str| Value::from(text);
    let blob = |bytes: &[u8]| Value::Blob(bytes.to_vec());
    let long = "It\u{2019}s \u{130}\u{149}\u{df} \u{3a3}\u{391}\u{3a3} na\u{ef}ve, 'quoted' text "
        .repeat(300);
    let mut bytes = long.as_bytes().to_vec();
    bytes[5] = 0xff;
    bytes[1000] = 0x80;
    let mut cases = Vec::new();
    for value in [
        text("aXbXXc"),
        text(&long),
        Value::Blob(bytes),
        text("XX"),
        blob(b"\0X\xff"),
    ] {
        let values = |rest: &[&str]| -> Vec<Value> {
            let rest = rest.iter().map(|rest| text(rest));
            [value.clone()].into_iter().chain(rest).collect()
        };
        for name in [
            "hex",
            "quote",
            "lower",
            "upper",
            "trim",
            "cast TEXT",
            "cast BLOB",
        ] {
            cases.push((name, values(&[])));
        }
        cases.push(("||", values(&["more"])));
        cases.push(("||", vec![Value::Integer(17), value.clone()]));
        cases.push(("concat", values(&["", "more", "s"])));
        cases.push((
            "concat_ws",
            [text(", "), value.clone(), Value::Null, blob(b"b")].into(),
        ));
        for (from, to) in [("X", "YYYY"), ("s", "t"), ("", "x")] {
            cases.push(("replace", values(&[from, to])));
        }
        cases.push(("coalesce", values(&["x"])));
        cases.push(("ltrim", values(&["aI"])));
        cases.push(("rtrim", values(&["c X\u{ff}"])));
        let range = [value.clone(), Value::Integer(2), Value::Integer(900)];
        cases.push(("substr", range.into()));
        cases.push((
            "iif",
            [Value::Integer(1), value.clone(), Value::Null].into(),
        ));
    }
    for (name, row) in cases {
        let operands = (0..row.len()).map(Expression::Column).collect();
        let expressions = expressions(name, operands);
        let within = |bytes: u64| {
            let program = Program::new(
                &expressions,
                &Layout::whole(row.len(), 0),
                0,
                &Interrupt::never(),
                &ValueMemory::of(bytes),
            )?;
            program.check_constants()?;
            Evaluator::of(&program).take(&row, id(expressions.len() - 1))
        };
        let value = within(1 << 20).unwrap();
        let bytes = memory::size(&value);
        // Copies this small are not counted.
        if bytes == 0
            || !memory::is_counted(&value)
                && ["coalesce", "iif", "cast TEXT", "cast BLOB", "replace"].contains(&name)
        {
            continue;
        }
        assert_eq!(within(bytes).unwrap(), value, "{name}");
        let error = within(bytes - 1).unwrap_err();
        assert!(matches!(error, Error::TooLarge { .. }), "{name}: {error}");
    }
}

#[test]
fn hostile_constants_are_not_computed_before_there_is_a_row() {
    // Each doubles the one before: 2^60 bytes.
    let mut all = vec![Expression::Value(Value::from("ab").into())];
    for _ in 0..60 {
        all.push(Expression::Binary {
            operator: BinaryOperator::Concatenate,
            left: id(all.len() - 1),
            right: id(all.len() - 1),
        });
    }
    let memory = ValueMemory::of(1 << 20);
    let program = Program::new(&all, &Layout::default(), 0, &Interrupt::never(), &memory).unwrap();
    program.check_constants().unwrap();
    let bytes = |index: usize| program.constant(id(index)).map(memory::size);
    let folded = (0..all.len()).filter_map(bytes).sum::<u64>();
    assert!((32 << 10..130 << 10).contains(&folded), "{folded}");
    let mut evaluator = Evaluator::of(&program);
    let error = evaluator.value(&[], id(all.len() - 1)).unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    assert!((256 << 10..=1 << 20).contains(&memory.used()));
    // The next row begins without values.
    evaluator.next_row();
    assert_eq!(memory.used(), 0);
    assert_eq!(memory::size(evaluator.value(&[], id(17)).unwrap()), 1 << 18);
}

#[test]
fn programs_share_the_constants_of_a_plan() {
    let large = Arc::new(Value::from("large"));
    let expressions = vec![
        Expression::Value(Arc::clone(&large)),
        Expression::Column(0),
        Expression::In {
            operand: id(1),
            list: vec![id(0)],
            negated: false,
            collation: Collation::Binary,
        },
    ];
    let layout = Layout::whole(1, 0);
    let program = Program::new(
        &expressions,
        &layout,
        0,
        &Interrupt::never(),
        &ValueMemory::default(),
    )
    .unwrap();
    assert!(std::ptr::eq(program.constant(id(0)).unwrap(), &*large));
    // Here, in the plan, as a constant and in the list.
    assert_eq!(Arc::strong_count(&large), 4);
}

#[test]
fn work_on_large_values_can_be_interrupted() {
    let large = Value::Text("'\u{e4}".repeat(1 << 20));
    let blob = Value::Blob(vec![0; 1 << 20]);
    for (function, value) in [
        (Function::Hex, &large),
        (Function::Quote, &large),
        (Function::Quote, &blob),
        (Function::NullIf, &large),
        (Function::Max, &large),
        (Function::Min, &large),
    ] {
        assert_interrupted(function, &[value, &large]);
    }
    let text = |text: &str| Value::Text(text.repeat((2 << 20) / text.len()));
    let (zero, day) = (Value::Integer(0), Value::from("2001-02-03"));
    let array = Value::Text(format!("[{}1]", "1,".repeat(1 << 20)));
    let string = Value::Text(format!("\"{}\"", "\\u00e4".repeat(1 << 18)));
    for (function, arguments) in [
        (
            Function::JsonExtract,
            [&array, &Value::from("$[#-1]"), &zero],
        ),
        (Function::JsonExtract, [&string, &Value::from("$"), &zero]),
        (
            Function::JsonExtract,
            [&text(" "), &Value::from("$"), &zero],
        ),
        (
            Function::JsonExtract,
            [&text("9"), &Value::from("$"), &zero],
        ),
        (Function::Format, [&text("%n"), &zero, &zero]),
        (Function::Format, [&text("%.0f"), &zero, &zero]),
        (
            Function::Format,
            [&Value::from("%.*c"), &Value::Integer(2 << 20), &zero],
        ),
        (Function::Format, [&Value::from("%Q"), &large, &zero]),
        (
            Function::Strftime,
            [&text("%Y"), &day, &Value::from("+1 day")],
        ),
        (
            Function::SplitPart,
            [&text(","), &Value::from(","), &Value::Integer(-1)],
        ),
        (
            Function::SplitPart,
            [&text(","), &Value::from(""), &Value::Integer(1 << 30)],
        ),
        (
            Function::Replace,
            [&text(","), &Value::from(","), &Value::from("")],
        ),
        (Function::Trim, [&text(","), &large, &zero]),
    ] {
        let count = if function == Function::Trim { 2 } else { 3 };
        assert_interrupted(function, &arguments[..count]);
    }
}

#[test]
fn formats_of_dates_are_bounded_as_other_values_are() {
    let (memory, mut pace) = (ValueMemory::of(1 << 20), Interrupt::never().pace());
    let pattern = Value::from("%F ".repeat(300_000));
    let mut strftime = |pattern: &Value, modifier: &Value| {
        let arguments = [pattern, &Value::from("2001-02-03"), modifier];
        call(
            Function::Strftime,
            &arguments,
            Collation::Binary,
            0,
            &memory,
            &mut pace,
        )
    };
    let error = strftime(&pattern, &Value::from("+1 day")).unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    let long = Value::from("+1 day".to_owned() + &" ".repeat(2 << 20));
    let error = strftime(&Value::from("%Y"), &long).unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    assert_eq!(
        strftime(&Value::from("%Y%%"), &Value::from("+1 YEAR")).unwrap(),
        Value::from("2002%")
    );
}

/// A call that polls while it works, of a statement that has been interrupted.
fn assert_interrupted(function: Function, arguments: &[&Value]) {
    let interrupt = Interrupt::never();
    interrupt.handle().interrupt();
    let memory = ValueMemory::default();
    let pace = &mut interrupt.pace();
    let result = call(function, arguments, Collation::NoCase, 0, &memory, pace);
    assert!(
        matches!(result, Err(Error::Interrupted)),
        "{function:?}: {:?}",
        result.map(drop)
    );
}

#[test]
fn texts_of_any_size_compare_by_their_foldings() {
    let part = "a".repeat(1 << 16);
    let text = |end: &str| Value::Text(part.clone() + end);
    let compare = |left: &Value, right: &Value| compare(left, right, Collation::NoCase);
    // The rest stands at the border of a part and behind it.
    for front in ["", "b", "\u{e4}"] {
        let text = |end: &str| text(&format!("{front}{end}"));
        assert!(compare(&text("\u{c4}X"), &text("\u{e4}x")).is_eq());
        assert!(compare(&text("A"), &text("a")).is_eq());
        assert!(compare(&text(""), &text("a")).is_lt());
        assert!(compare(&text("a"), &text("")).is_gt());
        assert!(compare(&text("B"), &text("a")).is_gt());
        assert!(compare(&text("A"), &text("\u{c4}")).is_lt());
    }
}
