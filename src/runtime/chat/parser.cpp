#include "parser.hpp"

#include <algorithm>
#include <array>

#include "flotilla/base/foreign_text.hpp"

namespace flotilla::chat {

using StatementKind = Statement::Kind;

namespace {

/// Statements of Jinja that templates of models do without.
constexpr std::array<std::string_view, 12> unsupported{"include", "extends", "import",     "from", "block", "call",
                                                       "filter",  "with",    "autoescape", "raw",  "do",    "trans"};

}  // namespace

TemplateProgram parse(std::string_view source, std::string_view name) { return Parser{tokens_of(source, name), name}.run(); }

TemplateProgram Parser::run() {
  TemplateProgram program;
  program.body = body({});
  if (here().kind != Token::Kind::end) fail("unexpected ", in_quotes(ahead()));
  program.marks_generation = marks_generation_;
  return program;
}

bool Parser::take_symbol(std::string_view symbol) {
  if (!here().is(symbol)) return false;
  take();
  return true;
}

bool Parser::take_name(std::string_view word) {
  if (!here().is_name(word)) return false;
  take();
  return true;
}

void Parser::expect_symbol(std::string_view symbol) {
  if (!take_symbol(symbol)) fail("expected ", in_quotes(std::string{symbol}), ", found ", ahead());
}

std::string Parser::expect_name() {
  if (here().kind != Token::Kind::name) fail("expected a name, found ", ahead());
  return take().text;
}

void Parser::expect_block_end() {
  if (here().kind != Token::Kind::block_end) fail("expected %}, found ", ahead());
  take();
}

std::string Parser::ahead() const {
  switch (here().kind) {
    case Token::Kind::output_end: return "}}";
    case Token::Kind::block_end: return "%}";
    case Token::Kind::end: return "the end of the template";
    case Token::Kind::string: return "a string";
    case Token::Kind::data: return "text";
    default: return in_quotes(here().text);
  }
}

/// Up to {% WORD of one of these, which is left standing.
Body Parser::body(std::initializer_list<std::string_view> ends) {
  const Nesting nesting{*this};
  Body statements;
  while (here().kind != Token::Kind::end) {
    if (here().kind == Token::Kind::data) {
      statements.push_back({.kind = StatementKind::data, .place = here().place, .text = here().text});
      take();
    } else if (here().kind == Token::Kind::output_begin) {
      const auto place = take().place;
      statements.push_back({.kind = StatementKind::output, .place = place, .value = tuple()});
      if (here().kind != Token::Kind::output_end) fail("expected }}, found ", ahead());
      take();
    } else {
      const auto& word = tokens_[at_ + 1];
      if (word.kind == Token::Kind::name && std::ranges::find(ends, word.text) != ends.end()) return statements;
      take();
      statement(statements);
    }
  }
  if (ends.size() > 0) fail("the template ends here; expected {% ", *(ends.end() - 1), " %}");
  return statements;
}

void Parser::end_of(std::string_view word) {
  take();
  if (!take_name(word)) fail("expected {% ", word, " %}, found ", ahead());
  expect_block_end();
}

void Parser::statement(Body& statements) {
  const auto place = here().place;
  const auto word = expect_name();
  if (word == "if") return statements.push_back(if_statement(place));
  if (word == "for") return statements.push_back(for_statement(place));
  if (word == "set") return set_statement(place, statements);
  if (word == "macro") return statements.push_back(macro_statement(place));
  if (word == "break" || word == "continue") {
    if (loops_ == 0) refuse(name_, place, word, " outside of a loop");
    expect_block_end();
    return statements.push_back({.kind = word == "break" ? StatementKind::leave_loop : StatementKind::next_round, .place = place});
  }
  if (word == "generation") {
    marks_generation_ = true;
    expect_block_end();
    Statement generation{.kind = StatementKind::generation, .place = place};
    generation.body = body({"endgeneration"});
    end_of("endgeneration");
    return statements.push_back(std::move(generation));
  }
  if (std::ranges::find(unsupported, word) != unsupported.end())
    refuse(name_, place, "the statement ", in_quotes(word), " is not supported");
  refuse(name_, place, "unknown statement ", in_quotes(word));
}

Statement Parser::if_statement(TemplateLocation place) {
  Statement made{.kind = StatementKind::branches, .place = place};
  made.branches.push_back({tuple(), {}});
  for (;;) {
    expect_block_end();
    auto& branch = made.branches.back();
    branch.body = branch.condition ? body({"elif", "else", "endif"}) : body({"endif"});
    take();
    if (take_name("endif")) break;
    const bool last = here().is_name("else");
    take();
    made.branches.push_back({last ? nullptr : tuple(), {}});
  }
  expect_block_end();
  return made;
}

std::vector<std::string> Parser::targets() {
  std::vector<std::string> names;
  const bool brackets = take_symbol("(");
  do names.push_back(expect_name());
  while (take_symbol(",") && here().kind == Token::Kind::name && !here().is_name("in"));
  if (brackets) expect_symbol(")");
  return names;
}

Statement Parser::for_statement(TemplateLocation place) {
  Statement made{.kind = StatementKind::loop, .place = place};
  made.names = targets();
  if (std::ranges::find(made.names, "loop") != made.names.end()) fail("a loop's variable cannot be named loop");
  if (!take_name("in")) fail("expected 'in', found ", ahead());
  made.value = alternative();
  if (here().is(",")) fail("a list without brackets is not supported here");
  if (take_name("if")) made.filter = expression();
  if (here().is_name("recursive")) fail("recursive loops are not supported");
  expect_block_end();
  ++loops_;
  made.body = body({"else", "endfor"});
  --loops_;
  take();
  if (take_name("else")) {
    expect_block_end();
    made.otherwise = body({"endfor"});
    take();
  }
  if (!take_name("endfor")) fail("expected endfor, found ", ahead());
  expect_block_end();
  return made;
}

void Parser::set_statement(TemplateLocation place, Body& statements) {
  Statement made{.kind = StatementKind::set, .place = place};
  made.names = targets();
  made.text = made.names.front();
  if (made.names.size() == 1 && take_symbol(".")) made.attribute = expect_name();
  if (take_symbol("=")) {
    made.value = tuple();
    expect_block_end();
    return statements.push_back(std::move(made));
  }
  if (made.names.size() > 1 || !made.attribute.empty()) fail("expected '=', found ", ahead());
  made.kind = StatementKind::set_block;
  expect_block_end();
  made.body = body({"endset"});
  end_of("endset");
  statements.push_back(std::move(made));
}

Statement Parser::macro_statement(TemplateLocation place) {
  Statement made{.kind = StatementKind::macro, .place = place};
  made.text = expect_name();
  made.macro = std::make_shared<MacroStatement>();
  made.macro->name = made.text;
  expect_symbol("(");
  while (!here().is(")")) {
    made.macro->parameters.push_back(expect_name());
    if (take_symbol("="))
      made.macro->defaults.push_back(expression());
    else if (!made.macro->defaults.empty())
      fail("a parameter without a default behind one that has a default");
    if (!take_symbol(",")) break;
  }
  expect_symbol(")");
  expect_block_end();
  const int loops = std::exchange(loops_, 0);
  made.macro->body = body({"endmacro"});
  loops_ = loops;
  end_of("endmacro");
  return made;
}

}  // namespace flotilla::chat
