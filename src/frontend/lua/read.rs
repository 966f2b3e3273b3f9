//! full_moon's tree -> [`super::tree`].

use std::sync::Arc;

use full_moon::ast::{
    self, BinOp, Call, Field, FunctionArgs, Index, LastStmt, Parameter, Prefix, Stmt, Suffix, UnOp, Var,
};
use full_moon::node::Node;
use full_moon::tokenizer::{Symbol, TokenReference, TokenType};

use super::tree::{Expression, Function, Statement};

/// Statements of a block.
pub fn block(block: &ast::Block) -> Vec<Statement> {
    let mut list: Vec<Statement> = block.stmts().filter_map(statement).collect();
    match block.last_stmt() {
        Some(LastStmt::Return(last)) => list.push(Statement::Return(last.returns().iter().map(expression).collect())),
        Some(LastStmt::Break(_)) => list.push(Statement::Break),
        _ => {}
    }
    list
}

fn statement(statement: &Stmt) -> Option<Statement> {
    Some(match statement {
        Stmt::LocalAssignment(local) => Statement::Local(
            local.names().iter().map(name).collect(),
            local.expressions().iter().map(expression).collect(),
        ),
        Stmt::Assignment(assignment) => Statement::Assign(
            assignment.variables().iter().map(variable).collect(),
            assignment.expressions().iter().map(expression).collect(),
        ),
        Stmt::FunctionCall(call) => Statement::Call(chain(call.prefix(), call.suffixes())),
        Stmt::If(branch) => {
            let mut arms = vec![(expression(branch.condition()), block(branch.block()))];
            for arm in branch.else_if().into_iter().flatten() {
                arms.push((expression(arm.condition()), block(arm.block())));
            }
            Statement::If(arms, branch.else_block().map(block).unwrap_or_default())
        }
        Stmt::While(repeat) => Statement::While(expression(repeat.condition()), block(repeat.block())),
        Stmt::Repeat(repeat) => Statement::Repeat(block(repeat.block()), expression(repeat.until())),
        Stmt::NumericFor(repeat) => {
            let mut limits = vec![expression(repeat.start()), expression(repeat.end())];
            limits.extend(repeat.step().map(expression));
            Statement::Numeric(name(repeat.index_variable()), limits, block(repeat.block()))
        }
        Stmt::GenericFor(repeat) => Statement::Generic(
            repeat.names().iter().map(name).collect(),
            repeat.expressions().iter().map(expression).collect(),
            block(repeat.block()),
        ),
        Stmt::LocalFunction(item) => Statement::Function(name(item.name()), function(item.body())),
        Stmt::FunctionDeclaration(item) => {
            let path: Vec<String> = item.name().names().iter().map(name).collect();
            Statement::Function(path.join("."), function(item.body()))
        }
        Stmt::Do(inner) => Statement::Do(block(inner.block())),
        _ => return None,
    })
}

fn function(body: &ast::FunctionBody) -> Arc<Function> {
    let parameter = |parameter: &Parameter| match parameter {
        Parameter::Name(token) => name(token),
        _ => "...".to_owned(),
    };
    Arc::new(Function { parameters: body.parameters().iter().map(parameter).collect(), body: block(body.block()) })
}

fn name(token: &TokenReference) -> String {
    token.token().to_string()
}

fn variable(var: &Var) -> Expression {
    match var {
        Var::Name(token) => Expression::Name(name(token)),
        Var::Expression(inner) => chain(inner.prefix(), inner.suffixes()),
        _ => Expression::Nil,
    }
}

/// `a.b["c"](x):d(y)`
fn chain<'a>(prefix: &Prefix, suffixes: impl Iterator<Item = &'a Suffix>) -> Expression {
    let offset = prefix.start_position().map_or(0, |position| position.bytes());
    let mut value = match prefix {
        Prefix::Name(token) => Expression::Name(name(token)),
        Prefix::Expression(inner) => expression(inner),
        _ => Expression::Nil,
    };
    for suffix in suffixes {
        value = match suffix {
            Suffix::Index(Index::Dot { name: field, .. }) => {
                Expression::Index(Box::new(value), Box::new(Expression::Text(name(field))))
            }
            Suffix::Index(Index::Brackets { expression: key, .. }) => {
                Expression::Index(Box::new(value), Box::new(expression(key)))
            }
            Suffix::Call(Call::AnonymousCall(args)) => Expression::Call(Box::new(value), arguments(args), offset),
            Suffix::Call(Call::MethodCall(method)) => {
                let mut list = vec![value.clone()];
                list.extend(arguments(method.args()));
                let callee = Expression::Index(Box::new(value), Box::new(Expression::Text(name(method.name()))));
                Expression::Call(Box::new(callee), list, offset)
            }
            _ => Expression::Nil,
        };
    }
    value
}

fn arguments(args: &FunctionArgs) -> Vec<Expression> {
    match args {
        FunctionArgs::Parentheses { arguments, .. } => arguments.iter().map(expression).collect(),
        FunctionArgs::String(token) => vec![string(token)],
        FunctionArgs::TableConstructor(table) => vec![table_of(table)],
        _ => Vec::new(),
    }
}

fn expression(value: &ast::Expression) -> Expression {
    match value {
        ast::Expression::Parentheses { expression: inner, .. } => expression(inner),
        ast::Expression::BinaryOperator { lhs, binop, rhs } => match operator(binop) {
            Some(operator) => Expression::Binary(operator, Box::new(expression(lhs)), Box::new(expression(rhs))),
            None => Expression::Nil,
        },
        ast::Expression::UnaryOperator { unop, expression: inner } => {
            let operator = match unop {
                UnOp::Not(_) => "not",
                UnOp::Minus(_) => "-",
                _ => "#",
            };
            Expression::Unary(operator, Box::new(expression(inner)))
        }
        ast::Expression::Function(inner) => Expression::Function(function(inner.body())),
        ast::Expression::FunctionCall(call) => chain(call.prefix(), call.suffixes()),
        ast::Expression::TableConstructor(table) => table_of(table),
        ast::Expression::Number(token) => number(&name(token)),
        ast::Expression::String(token) => string(token),
        ast::Expression::Symbol(token) => match token.token_type() {
            TokenType::Symbol { symbol: Symbol::True } => Expression::Bool(true),
            TokenType::Symbol { symbol: Symbol::False } => Expression::Bool(false),
            TokenType::Symbol { symbol: Symbol::Ellipsis } => Expression::Rest,
            _ => Expression::Nil,
        },
        ast::Expression::Var(var) => variable(var),
        _ => Expression::Nil,
    }
}

fn operator(operator: &BinOp) -> Option<&'static str> {
    Some(match operator {
        BinOp::And(_) => "and",
        BinOp::Or(_) => "or",
        BinOp::TwoEqual(_) => "==",
        BinOp::TildeEqual(_) => "~=",
        BinOp::LessThan(_) => "<",
        BinOp::LessThanEqual(_) => "<=",
        BinOp::GreaterThan(_) => ">",
        BinOp::GreaterThanEqual(_) => ">=",
        BinOp::Plus(_) => "+",
        BinOp::Minus(_) => "-",
        BinOp::Star(_) => "*",
        BinOp::Slash(_) => "/",
        BinOp::Percent(_) => "%",
        BinOp::Caret(_) => "^",
        BinOp::TwoDots(_) => "..",
        _ => return None,
    })
}

fn table_of(table: &ast::TableConstructor) -> Expression {
    let field = |field: &Field| match field {
        Field::ExpressionKey { key, value, .. } => (Some(expression(key)), expression(value)),
        Field::NameKey { key, value, .. } => (Some(Expression::Text(name(key))), expression(value)),
        Field::NoKey(value) => (None, expression(value)),
        _ => (None, Expression::Nil),
    };
    Expression::Table(table.fields().iter().map(field).collect())
}

fn number(text: &str) -> Expression {
    let parsed = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => i64::from_str_radix(hex, 16).ok().map(|n| n as f64),
        None => text.parse().ok(),
    };
    parsed.map_or(Expression::Nil, Expression::Number)
}

fn string(token: &TokenReference) -> Expression {
    let TokenType::StringLiteral { literal, quote_type, .. } = token.token_type() else { return Expression::Nil };
    if *quote_type == full_moon::tokenizer::StringLiteralQuoteType::Brackets {
        return Expression::Text(literal.to_string());
    }
    let mut text = String::with_capacity(literal.len());
    let mut chars = literal.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            text.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => text.push('\n'),
            Some('t') => text.push('\t'),
            Some('r') => text.push('\r'),
            Some(other) => text.push(other),
            None => {}
        }
    }
    Expression::Text(text)
}
