#pragma once
#include <type_traits>

/// Our declarations of a library's functions against its header's, for tests that are passed by compiling.
namespace flotilla::tests {

/// Handles are pointers to different nothings, and enumerations are ints of ours: alike in kind and size.
template <class A, class B>
constexpr bool alike = (std::is_pointer_v<A> && std::is_pointer_v<B>) ||
                       (!std::is_pointer_v<A> && !std::is_pointer_v<B> && sizeof(A) == sizeof(B));
template <class A, class B>
struct SameCall : std::false_type {};
template <class R, class... A, class S, class... B>
requires(sizeof...(A) == sizeof...(B)) struct SameCall<R (*)(A...), S (*)(B...)> : std::bool_constant<alike<R, S> && (alike<A, B> && ...)> {
};

}  // namespace flotilla::tests
