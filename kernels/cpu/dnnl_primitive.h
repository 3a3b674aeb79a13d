#pragma once

#include <dnnl.hpp>
#include <initializer_list>
#include <unordered_map>
#include <utility>

#include "kernels/cpu/workspace.h"
#include "ps/base/buffer.h"
#include "ps/base/status.h"

// The interface to oneDNN; included by the .cc files of this folder only. Everything that differs
// between oneDNN 2 (Debian 12) and 3 is in here and in MakeDesc's callers' argument lists.

namespace ps::kernels {

using Desc = dnnl::memory::desc;
using Tag = dnnl::memory::format_tag;

/// The CPU engine. One a process: it has no state that a caller could change.
const dnnl::engine& CpuEngine();

/// A dense f32 descriptor of an activation [n, c, h, w] stored as NHWC.
Desc ImageDesc(int64_t n, int64_t c, int64_t h, int64_t w);
Desc PlainDesc(const dnnl::memory::dims& dims, Tag tag);

/// Scratch memory is ours, so that a primitive may run on another thread than the one that made it.
dnnl::primitive_attr UserScratch();

/// P::primitive_desc from the arguments of P's operation descriptor.
template <typename P, typename... Args>
typename P::primitive_desc MakeDesc(const Args&... args) {
#if DNNL_VERSION_MAJOR >= 3
  return typename P::primitive_desc(CpuEngine(), args..., UserScratch());
#else
  return typename P::primitive_desc(typename P::desc(args...), UserScratch(), CpuEngine());
#endif
}

/// The same for a backward op, whose descriptor is made with the forward one as hint.
template <typename P, typename Hint, typename... Args>
typename P::primitive_desc MakeBackwardDesc(const Hint& hint, const Args&... args) {
#if DNNL_VERSION_MAJOR >= 3
  return typename P::primitive_desc(CpuEngine(), args..., hint, UserScratch());
#else
  return typename P::primitive_desc(typename P::desc(args...), UserScratch(), CpuEngine(), hint);
#endif
}

/// A primitive with its argument slots, made once and run with changing pointers.
class Primitive {
 public:
  /// An argument slot and its layout. A zero descriptor (an op without bias) makes no slot.
  using Slot = std::pair<int, Desc>;
  /// A slot and the memory for this run; nullptr for a slot that was not made. oneDNN does not tell
  /// inputs from outputs by type, hence the const pointer for both.
  using Binding = std::pair<int, const void*>;

  Primitive() = default;

  /// P is a oneDNN primitive type, pd its descriptor. Reserves its scratch in `workspace`, which
  /// must outlive this object.
  template <typename P>
  static Primitive Make(
      const typename P::primitive_desc& pd,
      Workspace* workspace,
      std::initializer_list<Slot> slots) {
    return Primitive(P(pd), pd.scratchpad_desc(), workspace, slots);
  }

  /// Converts between two layouts of one tensor. Slots: DNNL_ARG_FROM, DNNL_ARG_TO.
  static Primitive MakeReorder(const Desc& from, const Desc& to, Workspace* workspace);

  explicit operator bool() const { return static_cast<bool>(primitive_); }

  void Run(std::initializer_list<Binding> bindings);

 private:
  Primitive(
      dnnl::primitive primitive,
      const Desc& scratch,
      Workspace* workspace,
      std::initializer_list<Slot> slots);

  dnnl::primitive primitive_;
  std::unordered_map<int, dnnl::memory> arguments_;
  Workspace* workspace_ = nullptr;
};

/// A parameter in the layout that a primitive wants, when that is not the caller's: own memory and
/// the reorder that fills it, or empties it for a gradient.
class Relayout {
 public:
  Relayout() = default;
  /// Nothing is copied when the two layouts are the same.
  static Relayout ToPrimitive(const Desc& canonical, const Desc& wanted, Workspace* workspace);
  static Relayout FromPrimitive(const Desc& produced, const Desc& canonical, Workspace* workspace);

  /// ToPrimitive: the memory to hand to the primitive, filled from `source`.
  const float* Load(const float* source);
  /// FromPrimitive: the memory that the primitive writes, before Store copies it to `target`.
  float* Stage(float* target);
  void Store(float* target);

 private:
  Primitive reorder_;
  Buffer memory_;
};

/// Runs `build`, which calls oneDNN, and turns what it throws into a Status.
template <typename Build>
Status CatchDnnl(const char* op, Build build);

Status FromDnnl(const char* op, const dnnl::error& error);

template <typename Build>
Status CatchDnnl(const char* op, Build build) {
  try {
    build();
  } catch (const dnnl::error& error) {
    return FromDnnl(op, error);
  }
  return Status::Ok();
}

}  // namespace ps::kernels
