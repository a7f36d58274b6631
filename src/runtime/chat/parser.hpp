#pragma once
#include "syntax.hpp"

namespace flotilla::chat {

/// Recursive descent over a template's tokens, in the order of Jinja's own parser.
class Parser {
 public:
  Parser(std::vector<Token> tokens, std::string_view name) : tokens_{std::move(tokens)}, name_{name} {}
  TemplateProgram run();

 private:
  struct Nesting;

  const Token& here() const { return tokens_[at_]; }
  const Token& take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool take_symbol(std::string_view symbol);
  bool take_name(std::string_view word);
  void expect_symbol(std::string_view symbol);
  std::string expect_name();
  void expect_block_end();
  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    refuse(name_, here().place, parts...);
  }

  Body body(std::initializer_list<std::string_view> ends);
  void statement(Body&);
  Statement if_statement(TemplateLocation);
  Statement for_statement(TemplateLocation);
  void set_statement(TemplateLocation, Body&);
  Statement macro_statement(TemplateLocation);
  std::vector<std::string> targets();
  void end_of(std::string_view word);
  std::string ahead() const;

  ExpressionPointer tuple();
  ExpressionPointer expression();
  ExpressionPointer alternative();
  ExpressionPointer conjunction();
  ExpressionPointer negation();
  ExpressionPointer comparison();
  ExpressionPointer sum();
  ExpressionPointer concatenation();
  ExpressionPointer product();
  ExpressionPointer power();
  ExpressionPointer unary(bool with_filters);
  ExpressionPointer primary();
  ExpressionPointer primary_name();
  ExpressionPointer postfixed(ExpressionPointer);
  ExpressionPointer filtered(ExpressionPointer);
  ExpressionPointer subscript(ExpressionPointer);
  ExpressionPointer test(ExpressionPointer);
  ExpressionPointer list();
  ExpressionPointer dict();
  ExpressionPointer parenthesized();
  Arguments arguments();
  ExpressionPointer make(TemplateExpression::Kind, std::string text, TemplateLocation) const;
  ExpressionPointer binary(std::string text, ExpressionPointer a, ExpressionPointer b) const;

  const std::vector<Token> tokens_;
  const std::string_view name_;
  std::size_t at_ = 0;
  int depth_ = 0, loops_ = 0;
  bool marks_generation_ = false;
};

/// Counts how deep the parser stands; refuses what could exhaust the stack.
struct Parser::Nesting {
  explicit Nesting(Parser& parser) : parser_{parser} {
    if (++parser_.depth_ > 100) parser_.fail("nested deeper than 100");
  }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;
  ~Nesting() { --parser_.depth_; }
  Parser& parser_;
};

}  // namespace flotilla::chat
