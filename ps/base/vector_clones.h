#pragma once

// PS_VECTOR_CLONES in front of a function compiles it for baseline x86-64, AVX2 and AVX-512, and
// the loader takes the best that the machine has: release binaries are built for the baseline. Such
// functions are elementwise or integer and their files are compiled without contraction to fused
// multiply-add, so all clones give the same bits. Sanitizers instrument the resolvers that choose a
// clone before their own runtime is up (TSan crashes), so there is only the baseline then.
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define PS_HAS_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PS_HAS_SANITIZER 1
#endif

#if defined(__x86_64__) && defined(__linux__) && !defined(PS_HAS_SANITIZER)
#define PS_VECTOR_CLONES \
  __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define PS_VECTOR_CLONES
#endif
