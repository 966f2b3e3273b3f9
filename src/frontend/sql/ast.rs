//! The tree of a statement, as far as locks need it. All ranges are byte ranges of the text that was parsed.

use super::tokens::Dialect;
use std::ops::Range;

/// One statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// The whole statement without its terminator.
    pub range: Range<usize>,
    /// Its leading keyword.
    pub head: Range<usize>,
    /// What it does.
    pub kind: StatementKind,
    /// `WITH name AS (statement)`.
    pub ctes: Vec<(String, Statement)>,
    /// Calls of lock functions that stand where the reader built no tree.
    pub loose: Vec<Function>,
    /// Dialect that its syntax shows, or that of the caller.
    pub dialect: Dialect,
}

/// What a statement does.
#[derive(Clone, Debug, PartialEq)]
pub enum StatementKind {
    /// SELECT, VALUES, TABLE; PERFORM of PL/pgSQL.
    Select(Box<Select>),
    /// INSERT, REPLACE.
    Insert(Box<Insert>),
    /// UPDATE.
    Update(Box<Update>),
    /// DELETE.
    Delete(Box<Delete>),
    /// MERGE INTO table.
    Merge(Table),
    /// CALL, EXEC of a procedure: name and arguments (names are dropped).
    Call(Function),
    /// BEGIN, START TRANSACTION.
    Begin,
    /// COMMIT, END.
    Commit,
    /// ROLLBACK, ABORT.
    Rollback,
    /// SAVEPOINT, RELEASE SAVEPOINT, ROLLBACK TO: none of them ends the transaction.
    Savepoint,
    /// LOCK TABLE tables IN mode MODE.
    LockTable {
        /// Tables.
        tables: Vec<Table>,
        /// `access exclusive`, `write`, ..; empty if not given.
        mode: String,
        /// NOWAIT.
        nowait: bool,
    },
    /// UNLOCK TABLES (MySQL).
    UnlockTables,
    /// SET name = value, with `LOCAL`.
    Set {
        /// Setting.
        name: String,
        /// Value as written.
        value: String,
        /// SET LOCAL.
        local: bool,
    },
    /// DISCARD ALL, RESET ALL: ends what the session holds.
    Discard,
    /// TRUNCATE.
    Truncate(Vec<Table>),
    /// NOTIFY and other statements without an effect on rows.
    Utility(String),
    /// CREATE, ALTER, DROP, GRANT and kin.
    Schema(String),
    /// Not understood.
    Unknown,
}

/// A table named in a statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Name as written without quotes, schema included (`public.jobs`).
    pub name: String,
    /// Alias.
    pub alias: Option<String>,
    /// Where.
    pub range: Range<usize>,
}

impl Table {
    /// The name that columns and `OF` lists refer to.
    pub fn reference(&self) -> &str {
        self.alias.as_deref().unwrap_or_else(|| self.last())
    }

    /// Name without its schema.
    pub fn last(&self) -> &str {
        self.name.rsplit('.').next().unwrap_or(&self.name)
    }
}

/// An item of FROM or USING.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// Table or CTE.
    Table(Table),
    /// `(SELECT ..) alias`.
    Query(Box<Statement>, Option<String>),
    /// `function(..) alias`.
    Function(Expr, Option<String>),
}

/// SELECT.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Select {
    /// Select list: expression and output name (alias, column or function name), where it has one.
    pub items: Vec<(Expr, Option<String>)>,
    /// `SELECT .. INTO targets` (PL/pgSQL variables, or a new table).
    pub into: Vec<String>,
    /// FROM with all joins.
    pub from: Vec<Source>,
    /// ON conditions of joins, GROUP BY, HAVING, ORDER BY: searched for calls only.
    pub other: Vec<Expr>,
    /// WHERE.
    pub filter: Option<Expr>,
    /// ORDER BY or LIMIT, OFFSET, FETCH, DISTINCT or GROUP BY is present: rows are chosen after the scan.
    pub chooses: bool,
    /// LIMIT or FETCH FIRST or TOP.
    pub limit: bool,
    /// Row locks of this level.
    pub locks: Vec<RowLock>,
    /// Further members of UNION and kin.
    pub union: Vec<Statement>,
}

/// Strength of a [`RowLock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Strength {
    Update,
    NoKeyUpdate,
    Share,
    KeyShare,
}

/// What a [`RowLock`] does when the row is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Wait {
    Block,
    NoWait,
    SkipLocked,
}

/// FOR UPDATE and kin (PostgreSQL manual, SELECT, "The Locking Clause"; table hints of SQL Server).
#[derive(Clone, Debug, PartialEq)]
pub struct RowLock {
    /// Strength.
    pub strength: Strength,
    /// OF list; empty: all tables of the level.
    pub of: Vec<String>,
    /// NOWAIT, SKIP LOCKED.
    pub wait: Wait,
    /// Where.
    pub range: Range<usize>,
}

/// INSERT.
#[derive(Clone, Debug, PartialEq)]
pub struct Insert {
    /// Target.
    pub table: Table,
    /// Column list; empty if not given.
    pub columns: Vec<String>,
    /// Rows of VALUES.
    pub rows: Vec<Vec<Expr>>,
    /// `INSERT .. SELECT`.
    pub query: Option<Box<Statement>>,
    /// What happens on a duplicate key.
    pub conflict: Option<Conflict>,
    /// RETURNING, OUTPUT.
    pub returning: Option<Vec<(Expr, Option<String>)>>,
}

/// ON CONFLICT, ON DUPLICATE KEY, INSERT IGNORE, REPLACE.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conflict {
    /// Conflict target columns, or the constraint's name.
    pub target: Vec<String>,
    /// Assignments of DO UPDATE; empty for DO NOTHING.
    pub set: Vec<Assignment>,
    /// WHERE of DO UPDATE.
    pub filter: Option<Expr>,
    /// REPLACE: the old row is thrown away.
    pub replace: bool,
}

/// `column = value`; a row assignment `(a, b) = (SELECT ..)` gives one for each column with the same opaque value.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// Column.
    pub column: String,
    /// Value.
    pub value: Expr,
}

/// UPDATE.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// Target.
    pub table: Table,
    /// SET.
    pub set: Vec<Assignment>,
    /// FROM, joins.
    pub from: Vec<Source>,
    /// WHERE.
    pub filter: Option<Expr>,
    /// RETURNING, OUTPUT.
    pub returning: Option<Vec<(Expr, Option<String>)>>,
}

/// DELETE.
#[derive(Clone, Debug, PartialEq)]
pub struct Delete {
    /// Target.
    pub table: Table,
    /// USING, joins.
    pub from: Vec<Source>,
    /// WHERE.
    pub filter: Option<Expr>,
    /// RETURNING, OUTPUT.
    pub returning: Option<Vec<(Expr, Option<String>)>>,
}

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// Where.
    pub range: Range<usize>,
}

/// A parameter of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Param {
    /// `$1`, `?1`, or the n-th `?`: 0-based.
    Position(usize),
    /// `:name`, `@name`, `$name`.
    Name(String),
}

/// Kind of an [`Expr`].
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// `a`, `t.a`.
    Column(Vec<String>),
    /// String literal.
    Str(String),
    /// Number literal as written.
    Number(String),
    /// TRUE, FALSE.
    Bool(bool),
    /// NULL, DEFAULT.
    Null,
    /// Parameter.
    Param(Param),
    /// Hole of a template, as written.
    Hole(String),
    /// Function call.
    Call(Function),
    /// Operator in lower case (`=`, `and`, `is distinct from`, `like`, `in`, `||`) and its operands.
    Binary(String, Box<Expr>, Box<Expr>),
    /// `not`, `-`, `is null`, `is not null`, `is true`.
    Unary(String, Box<Expr>),
    /// `x::type`, `CAST(x AS type)`.
    Cast(Box<Expr>, String),
    /// `(a, b)`, `ARRAY[..]`, IN lists, CASE parts.
    List(Vec<Expr>),
    /// `(SELECT ..)`; also of EXISTS, ANY, ARRAY.
    Query(Box<Statement>),
    /// `*`, `t.*`.
    Star,
    /// Not understood.
    Opaque,
}

/// A function call.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// Name in lower case, schema included (`pg_catalog.pg_advisory_lock`).
    pub name: String,
    /// Arguments.
    pub args: Vec<Expr>,
    /// Names of arguments given by name (`@Resource = ..`, `key => ..`), lower case without `@`; aligned with `args`.
    pub names: Vec<Option<String>>,
    /// The name's range.
    pub range: Range<usize>,
}

impl Function {
    /// Name without its schema.
    pub fn last(&self) -> &str {
        self.name.rsplit('.').next().unwrap_or(&self.name)
    }

    /// The argument of a name, or else of a position.
    pub fn arg(&self, name: &str, position: usize) -> Option<&Expr> {
        let named = self.names.iter().position(|n| n.as_deref() == Some(name));
        match named {
            Some(i) => self.args.get(i),
            None => self.args.get(position).filter(|_| self.names.get(position).is_none_or(Option::is_none)),
        }
    }
}

impl Expr {
    /// An expression that is not understood.
    pub fn opaque(range: Range<usize>) -> Expr {
        Expr { kind: ExprKind::Opaque, range }
    }

    /// The expression below casts, parentheses and single-member lists.
    pub fn bare(&self) -> &Expr {
        match &self.kind {
            ExprKind::Cast(inner, _) => inner.bare(),
            ExprKind::List(list) if list.len() == 1 => list[0].bare(),
            _ => self,
        }
    }

    /// Column name without qualifier, below casts.
    pub fn column(&self) -> Option<&str> {
        match &self.bare().kind {
            ExprKind::Column(path) => path.last().map(String::as_str),
            _ => None,
        }
    }

    /// The members of a conjunction; OR and NOT stay whole.
    pub fn conjuncts(&self) -> Vec<&Expr> {
        let mut out = Vec::new();
        let mut stack = vec![self];
        while let Some(e) = stack.pop() {
            match &e.kind {
                ExprKind::Binary(op, l, r) if op == "and" => {
                    stack.push(r);
                    stack.push(l);
                }
                ExprKind::List(list) if list.len() == 1 => stack.push(&list[0]),
                _ => out.push(e),
            }
        }
        out
    }

    /// The members of a disjunction; a lone expression is its only member.
    pub fn disjuncts(&self) -> Vec<&Expr> {
        let mut out = Vec::new();
        let mut stack = vec![self];
        while let Some(e) = stack.pop() {
            match &e.kind {
                ExprKind::Binary(op, l, r) if op == "or" => {
                    stack.push(r);
                    stack.push(l);
                }
                ExprKind::List(list) if list.len() == 1 => stack.push(&list[0]),
                _ => out.push(e),
            }
        }
        out
    }
}
