//! A Lua script as a small tree of its own, with byte offsets of calls.

use std::sync::Arc;

/// A script.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Script {
    /// Its statements.
    pub body: Vec<Statement>,
}

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// `local a, b = x, y`
    Local(Vec<String>, Vec<Expression>),
    /// `a, b.c = x, y`
    Assign(Vec<Expression>, Vec<Expression>),
    /// A call for its effect.
    Call(Expression),
    /// `if .. elseif .. else .. end`
    If(Vec<(Expression, Vec<Statement>)>, Vec<Statement>),
    /// `while c do .. end`
    While(Expression, Vec<Statement>),
    /// `repeat .. until c`
    Repeat(Vec<Statement>, Expression),
    /// `for i = a, b, c do .. end`
    Numeric(String, Vec<Expression>, Vec<Statement>),
    /// `for k, v in x do .. end`
    Generic(Vec<String>, Vec<Expression>, Vec<Statement>),
    /// `function f(..) .. end`; the name with dots.
    Function(String, Arc<Function>),
    /// `do .. end`
    Do(Vec<Statement>),
    /// `return x, y`
    Return(Vec<Expression>),
    /// `break`
    Break,
}

/// A function.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// Parameters.
    pub parameters: Vec<String>,
    /// Body.
    pub body: Vec<Statement>,
}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// `nil`, and whatever cannot be read.
    Nil,
    /// `true`, `false`
    Bool(bool),
    /// A number.
    Number(f64),
    /// A string.
    Text(String),
    /// A variable.
    Name(String),
    /// `a.b`, `a["b"]`, `a[1]`
    Index(Box<Expression>, Box<Expression>),
    /// Callee, arguments, byte offset of the callee.
    Call(Box<Expression>, Vec<Expression>, usize),
    /// Operator as written, operands.
    Binary(&'static str, Box<Expression>, Box<Expression>),
    /// `not`, `-`, `#`
    Unary(&'static str, Box<Expression>),
    /// Fields with their keys.
    Table(Vec<(Option<Expression>, Expression)>),
    /// `function (..) .. end`
    Function(Arc<Function>),
    /// `...`
    Rest,
}
