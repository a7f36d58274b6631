#pragma once
#include "flotilla/program/program.hpp"
#include "paths.hpp"

namespace flotilla::simulate {

/// Collectives as libraries like NCCL run them: the fastest of
///   ring        2 (G - 1) steps of bytes / G between neighbours, members ordered host by host; the slowest neighbours decide
///   tree        2 ceil(log2 G) latencies and 2 x bytes over the slowest neighbours (two trees, so that both directions are used)
///   by nodes    ring sums inside every host, rings of each member's share between the hosts, rings inside again
///   by switch   on one host whose switches add (NVLS): two latencies and bytes x (1 + 1 / G) over DeviceType::switch_sums
/// (Thakur, Rabenseifner, Gropp 2005; NCCL's double binary trees). `flows` groups do the same through the same hosts' cards and zones'
/// uplinks. A member's share of what crosses hosts moves at Group::most at most, where that is set.
Seconds library_all_reduce(Paths&, const program::Group&, Bytes, const Flows& flows);
/// A reduce-scatter or an all-gather of a buffer of `bytes`: half an all-reduce, by ring or by nodes.
Seconds library_half(Paths&, const program::Group&, Bytes, const Flows& flows);
/// Everybody's `bytes` to everybody, or a sum of so few that only latency counts: ceil(log2 G) steps over the slowest neighbours.
Seconds library_exchange(Paths&, const program::Group&, Bytes, const Flows& flows);

}  // namespace flotilla::simulate
