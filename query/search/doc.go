// Package search is the search language of the Logs page: words, phrases, field:value, comparisons, ranges, wildcards, regular expressions, and, or, not.
//
// Parse reads a text; Query.Compile turns it to a SQL condition over the fields of one stream. What is a mistake of the text is an error with its position;
// what only does not fit the stream (a field that it does not have, a word where a number is expected) is a warning, since a field may appear later and a
// shared link must not break.
//
//	query    = or
//	or       = and { "or" and }
//	and      = unary { [ "and" ] unary }
//	unary    = { "not" | "-" | "!" } primary
//	primary  = "(" or ")" | word | phrase | name ":" value | name operator scalar | "_exists" ":" name
//	value    = scalar | operator scalar | "/" expression "/" | range | "(" or of values ")"
//	range    = ( "[" | "{" ) bound "to" bound ( "]" | "}" )
//
// A condition is never unknown: a record that lacks a field does not have the value, so it passes the negation. SQL says otherwise of NULL, so negations are
// carried down to the single conditions, where `"f" IS NULL OR …` says it in a form that scans and indexes evaluate.
//
// Every text of a search ends up in a string literal or a quoted name, with its quotes doubled; nothing else of it reaches the SQL.
package search
