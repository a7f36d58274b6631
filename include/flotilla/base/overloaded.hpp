#pragma once

namespace flotilla {

/// One visitor from a function a case: std::visit(Overloaded{[](const A&) {...}, [](const B&) {...}}, variant).
template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};

}  // namespace flotilla
