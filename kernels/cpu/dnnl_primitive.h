#pragma once

#include <dnnl.hpp>
#include <initializer_list>
#include <unordered_map>
#include <utility>

#include "kernels/cpu/workspace.h"
#include "kernels/op_spec.h"
#include "ps/base/status.h"

// The interface to oneDNN; included by the .cc files of this folder only. Everything that differs
// between oneDNN 2 (Debian 12) and 3 is in here and in MakeDesc's callers' argument lists.

namespace ps::kernels {

using Desc = dnnl::memory::desc;
using Tag = dnnl::memory::format_tag;

/// The CPU engine. One a process: it has no state that a caller could change.
const dnnl::engine& CpuEngine();

using Type = dnnl::memory::data_type;

/// A dense descriptor of an activation [n, c, h, w] stored as NHWC.
Desc ImageDesc(int64_t n, int64_t c, int64_t h, int64_t w, Type type = Type::f32);
Desc PlainDesc(const dnnl::memory::dims& dims, Tag tag, Type type = Type::f32);

/// How an op hands the factors of its products to oneDNN.
struct FactorType {
  /// bf16 where the CPU multiplies it itself; elsewhere, where oneDNN would emulate that slowly or
  /// not at all, f32 that is rounded. Products and their sums are f32 in both.
  explicit FactorType(Precision precision);

  Type type = Type::f32;
  bool is_rounded = false;
};

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

/// Where the copies of one call lie, one behind the other in the workspace.
class Copies {
 public:
  explicit Copies(Workspace* workspace) : workspace_(workspace) {}

  Workspace* workspace() const { return workspace_; }

  /// Offset of so many bytes more.
  size_t Reserve(size_t size_bytes);

 private:
  Workspace* const workspace_;
  size_t size_ = 0;
};

/// A tensor in the layout and type that a primitive wants, when they are not the caller's: a copy
/// in the workspace, and the reorder that fills it, or empties it for a gradient.
class Relayout {
 public:
  Relayout() = default;
  /// Nothing is copied when the two are the same. `is_rounded`: the copy, of f32, to bf16.
  static Relayout ToPrimitive(
      const Desc& given, const Desc& wanted, bool is_rounded, Copies* copies);
  static Relayout FromPrimitive(const Desc& produced, const Desc& canonical, Copies* copies);

  /// ToPrimitive: the memory to hand to the primitive, filled from `source`.
  const void* Load(const float* source);
  /// FromPrimitive: the memory that the primitive writes, before Store copies it to `target`.
  void* Stage(float* target);
  void Store(float* target);

 private:
  Primitive reorder_;
  Workspace* workspace_ = nullptr;  // nullptr: no copy
  size_t offset_ = 0;
  int64_t rounded_ = 0;  // elements
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
