#![allow(clippy::unwrap_used)]

use super::*;

fn texts(text: &str) -> Vec<(TokenKind, &str)> {
    tokenize(text, Dialect::Unknown).iter().map(|t| (t.kind, t.text(text))).collect()
}

fn words(text: &str) -> Vec<&str> {
    texts(text).into_iter().map(|(_, t)| t).collect()
}

#[test]
fn strings_and_quotes() {
    assert_eq!(
        words("SELECT 'it''s', E'a\\'b', \"Q\"\"x\", `m`"),
        ["SELECT", "'it''s'", ",", "E'a\\'b'", ",", "\"Q\"\"x\"", ",", "`m`"]
    );
    let text = "\"Q\"\"x\"";
    assert_eq!(tokenize(text, Dialect::Unknown)[0].identifier(text), "Q\"x");
    let text = "'it''s'";
    assert_eq!(tokenize(text, Dialect::Unknown)[0].string(text), "it's");
}

#[test]
fn dollar_quotes_nest_by_tag() {
    let text = "DO $a$ BEGIN EXECUTE $b$ select 1; $b$; END $a$; SELECT $1";
    let tokens = tokenize(text, Dialect::Unknown);
    assert_eq!(tokens[1].kind, TokenKind::Dollar);
    assert_eq!(&text[tokens[1].dollar_body(text)], " BEGIN EXECUTE $b$ select 1; $b$; END ");
    assert_eq!(tokens.last().unwrap().kind, TokenKind::Param);
}

#[test]
fn comments_nest_and_vanish() {
    assert_eq!(words("a /* x /* y */ ; */ b -- c\n d"), ["a", "b", "d"]);
    assert_eq!(words("a /* x /* y */ b"), ["a", "b"]);
}

#[test]
fn parameters_and_casts() {
    assert_eq!(
        words("x = $1::bigint AND y=? AND z=:name AND w = @p AND t>=-1"),
        [
            "x", "=", "$1", "::", "bigint", "AND", "y", "=", "?", "AND", "z", "=", ":name", "AND", "w", "=", "@p",
            "AND", "t", ">=", "-", "1"
        ]
    );
}

#[test]
fn templates() {
    let list = texts("SELECT * FROM {schema}.t, @extschema@.u, ${x}, {{ y }}, :NAME.v WHERE j @> '{}'");
    let templates: Vec<_> = list.iter().filter(|(k, _)| *k == TokenKind::Template).map(|(_, t)| *t).collect();
    assert_eq!(templates, ["{schema}", "@extschema@", "${x}", "{{ y }}"]);
    assert!(list.contains(&(TokenKind::Param, ":NAME")));
    assert!(list.contains(&(TokenKind::Op, "@>")));
}

#[test]
fn holes_are_parts_of_words() {
    let text = format!("SELECT * FROM {}.jobs_{}", hole(0), hole(1));
    assert_eq!(words(&text).len(), 6);
    assert_eq!(hole_index(hole(7)), Some(7));
}

#[test]
fn copy_data_and_psql_commands() {
    let text = "COPY t (a) FROM stdin;\n1;DROP\n'\n\\.\n\\set X 1\nSELECT 1 \\gset\nSELECT 2;";
    let kinds: Vec<_> = texts(text).into_iter().map(|(k, _)| k).collect();
    assert!(kinds.contains(&TokenKind::CopyData));
    assert_eq!(kinds.iter().filter(|k| **k == TokenKind::Meta).count(), 2);
    assert_eq!(words(text).last(), Some(&";"));
}

#[test]
fn client_delimiters() {
    let text = "DELIMITER $$\nCREATE PROCEDURE p() BEGIN SELECT 1; END$$\nDELIMITER ;\nSELECT 2;";
    let list = texts(text);
    assert!(list.contains(&(TokenKind::Semi, "$$")));
    assert!(list.contains(&(TokenKind::Number, "2")));
}

#[test]
fn brackets() {
    assert!(texts("SELECT * FROM [dbo].[My Table]").contains(&(TokenKind::Quoted, "[My Table]")));
    assert!(texts("SELECT a[i], ARRAY[b]").contains(&(TokenKind::Punct, "[")));
}

#[test]
fn never_panics() {
    for text in
        ["'", "$", "$a", "\"", "{", "[", "/*", "\\", "@", ":", "e'\\", "$$", "\u{e000}", "ä$é$", "<%", "1e", "0x", "#"]
    {
        for dialect in [Dialect::Unknown, Dialect::MySql, Dialect::SqlServer, Dialect::Postgres] {
            for token in tokenize(text, dialect) {
                token.identifier(text);
                token.string(text);
                token.dollar_body(text);
            }
        }
    }
}
