//! Source files, places in them, and what could not be read.

pub mod scan;

use std::sync::Arc;

/// Index of a [`SourceFile`] in [`Sources`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub u32);

/// A place in a source file: byte range `start..end` of the text as it is on disk (a byte-order mark counts).
/// The only notion of place outside front ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// The file.
    pub file: FileId,
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// A span of `file` from byte `start` to byte `end` (exclusive).
    pub fn new(file: FileId, start: usize, end: usize) -> Self {
        let clamp = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Span { file, start: clamp(start), end: clamp(end.max(start)) }
    }
}

/// What a file is, decided by its name (and for configs by its content, in the pooler front end).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Language {
    /// `.rs`
    Rust,
    /// `.sql`
    Sql,
    /// `.lua`
    Lua,
    /// Pooler and deployment configuration: `.ini`, `.toml`, `.conf`, YAML, env files.
    Config,
}

/// One input with its line table.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// Identity in [`Sources`].
    pub id: FileId,
    /// Path for people and reports: relative to the root of the run, `/` separators, never absolute inside the root.
    pub path: String,
    /// Where the file lies on disk; `None` for standard input and tests.
    pub disk: Option<std::path::PathBuf>,
    /// Language.
    pub language: Language,
    /// The text; invalid UTF-8 has been replaced (and reported as a [`Problem`]).
    pub text: Arc<str>,
    lines: Vec<u32>,
}

impl SourceFile {
    /// Builds the line table of `text`.
    pub fn new(id: FileId, path: impl Into<String>, language: Language, text: impl Into<Arc<str>>) -> Self {
        let text = text.into();
        let mut lines = vec![0];
        lines.extend(text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i as u32 + 1));
        SourceFile { id, path: path.into(), disk: None, language, text, lines }
    }

    /// 1-based line of a byte offset.
    pub fn line(&self, offset: u32) -> usize {
        self.lines.partition_point(|start| *start <= offset)
    }

    /// 1-based line and 1-based column in Unicode code points of a byte offset.
    pub fn line_column(&self, offset: u32) -> (usize, usize) {
        let line = self.line(offset);
        let start = self.lines[line - 1] as usize;
        let mut end = (offset as usize).min(self.text.len());
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        (line, self.text.get(start..end).map_or(0, |s| s.chars().count()) + 1)
    }

    /// Byte range of a 1-based line, without its line terminator; empty when there is no such line.
    pub fn line_range(&self, line: usize) -> std::ops::Range<usize> {
        let Some(start) = line.checked_sub(1).and_then(|i| self.lines.get(i)) else { return 0..0 };
        let start = *start as usize;
        let end = self.lines.get(line).map_or(self.text.len(), |next| *next as usize);
        let body = self.text[start..end].trim_end_matches(['\n', '\r']);
        start..start + body.len()
    }

    /// Byte offset of a 1-based line and a 0-based column counted in `char`s (proc-macro2's counting).
    /// Columns past the end of the line give the end of the line.
    pub fn offset(&self, line: usize, column: usize) -> usize {
        let range = self.line_range(line);
        if self.text.as_bytes()[range.clone()].get(..column).is_some_and(<[u8]>::is_ascii) {
            return range.start + column;
        }
        self.text[range.clone()].char_indices().nth(column).map_or(range.end, |(i, _)| range.start + i)
    }

    /// How many lines the file has (an empty file has one).
    pub fn line_count(&self) -> usize {
        self.lines.len()
    }

    /// The text of a span of this file (empty if it is not a valid range).
    pub fn slice(&self, span: Span) -> &str {
        self.text.get(span.start as usize..span.end as usize).unwrap_or("")
    }
}

/// All inputs that are kept in memory: those with lock words, and those a Scope or a caller needed.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    files: Vec<SourceFile>,
}

impl Sources {
    /// Adds a file and returns its id.
    pub fn add(&mut self, path: impl Into<String>, language: Language, text: impl Into<Arc<str>>) -> FileId {
        let id = FileId(self.files.len() as u32);
        self.files.push(SourceFile::new(id, path, language, text));
        id
    }

    /// Takes in all files of `other`, whose ids move on by the number returned.
    pub fn append(&mut self, other: Sources) -> u32 {
        let by = self.files.len() as u32;
        self.files.extend(other.files.into_iter().map(|file| SourceFile { id: FileId(file.id.0 + by), ..file }));
        by
    }

    /// The file of an id.
    pub fn get(&self, id: FileId) -> &SourceFile {
        &self.files[id.0 as usize]
    }

    /// Mutable access, for discovery.
    pub fn get_mut(&mut self, id: FileId) -> &mut SourceFile {
        &mut self.files[id.0 as usize]
    }

    /// All files, in id order.
    pub fn iter(&self) -> impl Iterator<Item = &SourceFile> {
        self.files.iter()
    }

    /// `path:line:column` of a span's start, for messages.
    pub fn place(&self, span: Span) -> String {
        let file = self.get(span.file);
        let (line, column) = file.line_column(span.start);
        format!("{}:{line}:{column}", file.path)
    }
}

/// How much a [`Problem`] hides from the analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProblemKind {
    /// The file could not be read at all (I/O, too large, binary).
    FileUnread,
    /// The file was read, but a part of it (an item, a statement, a setting) could not be parsed.
    PartUnread,
    /// Something the user should know that hides nothing (invalid UTF-8 replaced, link loop passed over).
    Notice,
}

/// Something that could not be read. Never silently dropped: the summary counts them, `--verbose` lists them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Problem {
    /// Path for people.
    pub path: String,
    /// Where, if the file's text is known.
    pub span: Option<Span>,
    /// How bad.
    pub kind: ProblemKind,
    /// What and why, lowercase, no final stop.
    pub message: String,
}
