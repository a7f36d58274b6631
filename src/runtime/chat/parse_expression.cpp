#include <algorithm>
#include <array>
#include <charconv>

#include "flotilla/base/foreign_text.hpp"
#include "parser.hpp"

namespace flotilla::chat {

using ExpressionKind = TemplateExpression::Kind;

ExpressionPointer Parser::make(TemplateExpression::Kind kind, std::string text, TemplateLocation place) const {
  auto made = std::make_unique<TemplateExpression>();
  made->kind = kind;
  made->text = std::move(text);
  made->place = place;
  return made;
}

ExpressionPointer Parser::binary(std::string text, ExpressionPointer a, ExpressionPointer b) const {
  auto made = make(ExpressionKind::binary, std::move(text), a->place);
  made->parts.push_back(std::move(a));
  made->parts.push_back(std::move(b));
  return made;
}

/// One value, or several with commas between them.
ExpressionPointer Parser::tuple() {
  auto first = expression();
  if (!here().is(",")) return first;
  auto made = make(ExpressionKind::tuple, "", first->place);
  made->parts.push_back(std::move(first));
  while (take_symbol(",")) {
    if (here().kind == Token::Kind::block_end || here().kind == Token::Kind::output_end || here().is(")")) break;
    made->parts.push_back(expression());
  }
  return made;
}

ExpressionPointer Parser::expression() {
  const Nesting nesting{*this};
  auto value = alternative();
  while (here().is_name("if")) {
    auto made = make(ExpressionKind::conditional, "", take().place);
    made->parts.push_back(std::move(value));
    made->parts.push_back(alternative());
    made->parts.push_back(take_name("else") ? expression() : nullptr);
    value = std::move(made);
  }
  return value;
}

ExpressionPointer Parser::alternative() {
  auto left = conjunction();
  while (take_name("or")) left = binary("or", std::move(left), conjunction());
  return left;
}

ExpressionPointer Parser::conjunction() {
  auto left = negation();
  while (take_name("and")) left = binary("and", std::move(left), negation());
  return left;
}

ExpressionPointer Parser::negation() {
  if (!here().is_name("not")) return comparison();
  const Nesting nesting{*this};
  auto made = make(ExpressionKind::unary, "not", take().place);
  made->parts.push_back(negation());
  return made;
}

ExpressionPointer Parser::comparison() {
  auto first = sum();
  auto made = make(ExpressionKind::comparison, "", first->place);
  made->parts.push_back(std::move(first));
  static constexpr std::array<std::string_view, 6> symbols{"==", "!=", "<", "<=", ">", ">="};
  for (;;) {
    if (here().kind == Token::Kind::symbol && std::ranges::find(symbols, here().text) != symbols.end()) {
      made->operators.push_back(take().text);
    } else if (take_name("in")) {
      made->operators.emplace_back("in");
    } else if (here().is_name("not") && tokens_[at_ + 1].is_name("in")) {
      take(), take();
      made->operators.emplace_back("not in");
    } else {
      break;
    }
    made->parts.push_back(sum());
  }
  return made->operators.empty() ? std::move(made->parts.front()) : std::move(made);
}

ExpressionPointer Parser::sum() {
  auto left = concatenation();
  while (here().is("+") || here().is("-")) {
    auto symbol = take().text;
    left = binary(std::move(symbol), std::move(left), concatenation());
  }
  return left;
}

ExpressionPointer Parser::concatenation() {
  auto left = product();
  while (take_symbol("~")) left = binary("~", std::move(left), product());
  return left;
}

ExpressionPointer Parser::product() {
  auto left = power();
  while (here().is("*") || here().is("/") || here().is("//") || here().is("%")) {
    auto symbol = take().text;
    left = binary(std::move(symbol), std::move(left), power());
  }
  return left;
}

ExpressionPointer Parser::power() {
  auto left = unary(true);
  while (take_symbol("**")) left = binary("**", std::move(left), unary(true));
  return left;
}

ExpressionPointer Parser::unary(bool with_filters) {
  const Nesting nesting{*this};
  ExpressionPointer value;
  if (here().is("-") || here().is("+")) {
    const auto& sign = take();
    value = make(ExpressionKind::unary, sign.text, sign.place);
    value->parts.push_back(unary(false));
  } else {
    value = primary();
  }
  value = postfixed(std::move(value));
  return with_filters ? filtered(std::move(value)) : std::move(value);
}

ExpressionPointer Parser::primary() {
  const auto& token = here();
  const auto constant = [&](Value value) {
    auto made = make(ExpressionKind::constant, "", token.place);
    made->value = std::move(value);
    return made;
  };
  switch (token.kind) {
    case Token::Kind::name: return primary_name();
    case Token::Kind::string: {
      std::string all;
      while (here().kind == Token::Kind::string) all += take().text;
      return constant(std::move(all));
    }
    case Token::Kind::whole: {
      std::int64_t value = 0;
      const auto* end = token.text.data() + token.text.size();
      if (std::from_chars(token.text.data(), end, value).ec != std::errc{}) fail("a number beyond 64 bits");
      take();
      return constant(value);
    }
    case Token::Kind::fraction: {
      double value = 0;
      if (std::from_chars(token.text.data(), token.text.data() + token.text.size(), value).ec != std::errc{}) fail("a number too large");
      take();
      return constant(value);
    }
    default: break;
  }
  if (token.is("[")) return list();
  if (token.is("{")) return dict();
  if (token.is("(")) return parenthesized();
  fail("expected a value, found ", ahead());
}

ExpressionPointer Parser::primary_name() {
  const auto& token = take();
  const auto& word = token.text;
  auto made = make(ExpressionKind::constant, word, token.place);
  if (word == "true" || word == "True")
    made->value = true;
  else if (word == "false" || word == "False")
    made->value = false;
  else if (word == "none" || word == "None")
    made->value = None{};
  else
    made->kind = ExpressionKind::name;
  return made;
}

ExpressionPointer Parser::list() {
  auto made = make(ExpressionKind::list, "", take().place);
  while (!here().is("]")) {
    made->parts.push_back(expression());
    if (!take_symbol(",")) break;
  }
  expect_symbol("]");
  return made;
}

ExpressionPointer Parser::dict() {
  auto made = make(ExpressionKind::dict, "", take().place);
  while (!here().is("}")) {
    made->parts.push_back(expression());
    expect_symbol(":");
    made->parts.push_back(expression());
    if (!take_symbol(",")) break;
  }
  expect_symbol("}");
  return made;
}

ExpressionPointer Parser::parenthesized() {
  const auto place = take().place;
  auto made = here().is(")") ? make(ExpressionKind::tuple, "", place) : tuple();
  expect_symbol(")");
  return made;
}

ExpressionPointer Parser::postfixed(ExpressionPointer value) {
  for (;;) {
    const auto place = here().place;
    if (take_symbol(".")) {
      if (here().kind == Token::Kind::whole) {
        auto made = make(ExpressionKind::item, "", place);
        made->parts.push_back(std::move(value));
        made->parts.push_back(primary());
        value = std::move(made);
        continue;
      }
      auto made = make(ExpressionKind::member, expect_name(), place);
      made->parts.push_back(std::move(value));
      value = std::move(made);
    } else if (here().is("[")) {
      value = subscript(std::move(value));
    } else if (here().is("(")) {
      auto made = make(ExpressionKind::call, "", place);
      made->parts.push_back(std::move(value));
      made->arguments = arguments();
      value = std::move(made);
    } else {
      return value;
    }
  }
}

ExpressionPointer Parser::subscript(ExpressionPointer value) {
  auto made = make(ExpressionKind::item, "", take().place);
  made->parts.push_back(std::move(value));
  const auto bound = [&] { return here().is(":") || here().is("]") ? nullptr : expression(); };
  auto first = bound();
  if (!here().is(":")) {
    if (first == nullptr) fail("expected an index");
    made->parts.push_back(std::move(first));
  } else {
    made->kind = ExpressionKind::slice;
    made->parts.push_back(std::move(first));
    for (int part = 0; part < 2; ++part) made->parts.push_back(take_symbol(":") ? bound() : nullptr);
  }
  if (here().is(",")) fail("indices with a comma are not supported");
  expect_symbol("]");
  return made;
}

ExpressionPointer Parser::filtered(ExpressionPointer value) {
  for (;;) {
    if (here().is("|")) {
      take();
      auto made = make(ExpressionKind::filter, "", here().place);
      made->text = expect_name();
      made->parts.push_back(std::move(value));
      if (here().is(".")) fail("filters with dots in their names are not supported");
      if (here().is("(")) made->arguments = arguments();
      value = std::move(made);
    } else if (here().is_name("is")) {
      value = test(std::move(value));
    } else if (here().is("(")) {
      auto made = make(ExpressionKind::call, "", here().place);
      made->parts.push_back(std::move(value));
      made->arguments = arguments();
      value = std::move(made);
    } else {
      return value;
    }
  }
}

ExpressionPointer Parser::test(ExpressionPointer value) {
  take();
  const bool negated = take_name("not");
  auto made = make(ExpressionKind::test, "", here().place);
  made->text = expect_name();
  made->parts.push_back(std::move(value));
  const auto kind = here().kind;
  const bool word = kind == Token::Kind::name && !here().is_name("else") && !here().is_name("or") && !here().is_name("and");
  if (here().is(".")) fail("tests with dots in their names are not supported");
  if (here().is_name("is")) fail("tests in a row are not supported; use brackets");
  if (here().is("(")) {
    made->arguments = arguments();
  } else if (word || kind == Token::Kind::string || kind == Token::Kind::whole || kind == Token::Kind::fraction || here().is("[") ||
             here().is("{")) {
    made->arguments.values.push_back(postfixed(primary()));
  }
  if (!negated) return made;
  auto turned = make(ExpressionKind::unary, "not", made->place);
  turned->parts.push_back(std::move(made));
  return turned;
}

Arguments Parser::arguments() {
  const Nesting nesting{*this};
  Arguments all;
  expect_symbol("(");
  while (!here().is(")")) {
    if (here().is("*") || here().is("**")) fail("arguments with * are not supported");
    if (here().kind == Token::Kind::name && tokens_[at_ + 1].is("=")) {
      auto name = take().text;
      take();
      all.named.emplace_back(std::move(name), expression());
    } else {
      if (!all.named.empty()) fail("an argument without a name behind one that has a name");
      all.values.push_back(expression());
    }
    if (!take_symbol(",")) break;
  }
  expect_symbol(")");
  return all;
}

}  // namespace flotilla::chat
