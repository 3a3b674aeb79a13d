#pragma once

// PS_ADDRESS_SANITIZER is defined, and its functions are declared, where this is compiled with it.

#if defined(__SANITIZE_ADDRESS__)
#define PS_ADDRESS_SANITIZER
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PS_ADDRESS_SANITIZER
#endif
#endif

#ifdef PS_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
