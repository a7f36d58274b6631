#pragma once
#include <string>

/// NVIDIA's collectives, opened at run time: one binary for machines with NCCL and without.
namespace flotilla::nccl {

/// What a version of NCCL can do that decides how it is used.
struct Features {
  bool nonblocking = false;  ///< 2.14: calls return at once and are asked about
  bool split = false;        ///< 2.18: a communicator of a part of another
  bool group_abort = false;  ///< 2.22: several communicators of a device aborted as one
  bool implicit_order =
      false;            ///< 2.26: operations of several communicators run in the order of their calls (NCCL_LAUNCH_ORDER_IMPLICIT=1)
  bool shrink = false;  ///< 2.27: a communicator without some members
};
/// `version` as NCCL gives it: 22809 for 2.28.9.
Features features(int version);

struct NcclPresence {
  int version = 0;       ///< 0: no NCCL that can be used
  std::string why_none;  ///< "libnccl.so.2 cannot be opened: ...": empty when there is one
  bool any() const { return version > 0; }
};
/// Local. The library is opened once for the life of the process. One without group abort counts as none: a lost member would leave the
/// survivors without a way out.
NcclPresence presence();

/// "NCCL 2.28.9" or "no NCCL here: ...".
std::string library_description();

}  // namespace flotilla::nccl
