#pragma once
#include <cstddef>
#include <string>
#include <string_view>

/// Text that others wrote (names, values, answers of programs, command lines), as it may stand in what we print. What is printed here
/// moves no cursor, starts no line and runs in no terminal: control characters become "\n", "\x1b"; bytes that are no UTF-8 "\xff";
/// characters that steer or hide text (DEL, C1 controls, line separators, direction marks) "\u202e". Printed twice it stays the same, and
/// what is JSON, JSON of the same text.
namespace flotilla {

/// The most bytes of a line that is printed for people, its newline not counted.
constexpr std::size_t longest_line = 500;
/// The most bytes of an error's message: who says it ("flotilla: rank 3 on n2: error: ") stands before it on its line.
constexpr std::size_t longest_message = 400;

/// On one line. Of text with more than `most` bytes its beginning and "...", cut between characters.
std::string printable(std::string_view text, std::size_t most = 120);
/// printable() between apostrophes: 'n1'.
std::string in_quotes(std::string_view text, std::size_t most = 60);
/// On one line of at most `most` bytes. Both ends of a longer one stay, with " ... " between them: the place stands first, the advice last.
std::string message_line(std::string_view text, std::size_t most = longest_line);
/// Lines of any length: newlines stay, everything else as in printable().
std::string printable_lines(std::string_view text);
/// What the head of a table is between. Nothing else that is printed may begin with the escape character.
inline constexpr std::string_view bold = "\033[1m", not_bold = "\033[0m";
/// printable_lines() of everything but these marks: of what goes to standard output. A foreign text could but make itself bold.
std::string printable_output(std::string_view text);

}  // namespace flotilla
