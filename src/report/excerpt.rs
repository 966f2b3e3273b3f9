//! The few lines of source that a report shows: neutralised, long lines cut to a window around what is pointed at.

use super::plain;
use crate::source::{FileId, SourceFile, Sources, Span};
use codespan_reporting::files::{Error, Files};
use std::collections::BTreeMap;
use std::ops::Range;

/// Excerpts of the files that some spans lie in. Each file's text holds only the lines that are pointed at; two empty
/// lines stand for a gap.
#[derive(Debug)]
pub struct Excerpts {
    files: BTreeMap<FileId, Excerpt>,
}

#[derive(Debug)]
struct Excerpt {
    name: String,
    text: String,
    lines: Vec<Line>,
}

/// One line of an excerpt.
#[derive(Clone, Debug)]
struct Line {
    /// 1-based number in the file.
    number: usize,
    /// Byte offset in the file of the line's first byte; the maximum for a gap.
    begin: usize,
    /// Where it lies in the excerpt's text.
    shown: Range<usize>,
    /// Byte offset in the file of the first byte shown after `prefix`.
    source: usize,
    /// Bytes of the ellipsis before it.
    prefix: usize,
    /// Code points of the file's line that are cut away before it.
    cut: usize,
}

const ELLIPSIS: &str = "… ";

impl Excerpts {
    /// Excerpts for the given spans; lines longer than `width` code points are cut.
    pub fn new(sources: &Sources, spans: &[Span], width: usize) -> Excerpts {
        let mut wanted: BTreeMap<FileId, BTreeMap<usize, Vec<Span>>> = BTreeMap::new();
        for span in spans {
            let line = sources.get(span.file).line(span.start);
            wanted.entry(span.file).or_default().entry(line).or_default().push(*span);
        }
        let files = wanted.into_iter().map(|(id, lines)| (id, Excerpt::new(sources.get(id), lines, width))).collect();
        Excerpts { files }
    }

    /// Where a span lies in its excerpt. Of a span over several lines the first line counts.
    pub fn range(&self, span: Span) -> Range<usize> {
        let Some(excerpt) = self.files.get(&span.file) else { return 0..0 };
        let (start, end) = (span.start as usize, span.end as usize);
        let Some(line) = excerpt.lines.iter().rfind(|line| line.begin <= start) else { return 0..0 };
        let place = |offset: usize| {
            let shown = line.shown.start + line.prefix + offset.saturating_sub(line.source);
            let mut shown = shown.min(line.shown.end);
            while !excerpt.text.is_char_boundary(shown) {
                shown -= 1;
            }
            shown
        };
        place(start)..place(end).max(place(start))
    }
}

impl Excerpt {
    fn new(file: &SourceFile, wanted: BTreeMap<usize, Vec<Span>>, width: usize) -> Excerpt {
        let mut excerpt = Excerpt { name: plain::one_line(&file.path), text: String::new(), lines: Vec::new() };
        let mut last = None;
        for (number, spans) in wanted {
            match last {
                Some(last) if number == last + 2 => excerpt.push(file, number - 1, &[], width),
                Some(last) if number > last + 2 => {
                    excerpt.gap();
                    excerpt.gap();
                }
                _ => {}
            }
            excerpt.push(file, number, &spans, width);
            last = Some(number);
        }
        excerpt
    }

    fn gap(&mut self) {
        let at = self.text.len();
        self.lines.push(Line { number: 0, begin: usize::MAX, shown: at..at, source: 0, prefix: 0, cut: 0 });
        self.text.push('\n');
    }

    fn push(&mut self, file: &SourceFile, number: usize, spans: &[Span], width: usize) {
        let range = file.line_range(number);
        let line = plain::neutral(file.text.get(range.clone()).unwrap_or("")).replace('\n', "?");
        let width = width.max(40);
        let total = line.chars().count();
        let mut window = 0..line.len();
        let mut cut = 0;
        if total > width {
            let first = spans.iter().map(|s| s.start as usize).min().unwrap_or(range.start).saturating_sub(range.start);
            let before = line.get(..first).map_or(0, |s| s.chars().count());
            // A third of the window stands before the first thing pointed at.
            cut = if before < width * 2 / 3 { 0 } else { (before - width / 3).min(total - width) };
            let at = |n: usize| line.char_indices().nth(n).map_or(line.len(), |(i, _)| i);
            window = at(cut)..at(cut + width);
        }
        let prefix = if cut > 0 { ELLIPSIS } else { "" };
        let start = self.text.len();
        self.text.push_str(prefix);
        self.text.push_str(&line[window.clone()]);
        if window.end < line.len() {
            self.text.push_str(" …");
        }
        let shown = start..self.text.len();
        let source = range.start + window.start;
        self.lines.push(Line { number, begin: range.start, shown, source, prefix: prefix.len(), cut });
        self.text.push('\n');
    }
}

impl<'a> Files<'a> for Excerpts {
    type FileId = FileId;
    type Name = &'a str;
    type Source = &'a str;

    fn name(&'a self, id: FileId) -> Result<&'a str, Error> {
        self.files.get(&id).map(|f| f.name.as_str()).ok_or(Error::FileMissing)
    }

    fn source(&'a self, id: FileId) -> Result<&'a str, Error> {
        self.files.get(&id).map(|f| f.text.as_str()).ok_or(Error::FileMissing)
    }

    fn line_index(&'a self, id: FileId, byte_index: usize) -> Result<usize, Error> {
        let file = self.files.get(&id).ok_or(Error::FileMissing)?;
        Ok(file.lines.partition_point(|line| line.shown.start <= byte_index).saturating_sub(1))
    }

    fn line_number(&'a self, id: FileId, line_index: usize) -> Result<usize, Error> {
        let file = self.files.get(&id).ok_or(Error::FileMissing)?;
        Ok(file.lines.get(line_index).map_or(0, |line| line.number))
    }

    fn column_number(&'a self, id: FileId, line_index: usize, byte_index: usize) -> Result<usize, Error> {
        let file = self.files.get(&id).ok_or(Error::FileMissing)?;
        let Some(line) = file.lines.get(line_index) else { return Ok(1) };
        let from = line.shown.start + line.prefix;
        let shown = file.text.get(from..byte_index.max(from)).map_or(0, |s| s.chars().count());
        Ok(line.cut + shown + 1)
    }

    fn line_range(&'a self, id: FileId, line_index: usize) -> Result<Range<usize>, Error> {
        let file = self.files.get(&id).ok_or(Error::FileMissing)?;
        let max = file.lines.len();
        let line = file.lines.get(line_index).ok_or(Error::LineTooLarge { given: line_index, max })?;
        Ok(line.shown.start..line.shown.end + 1)
    }
}
