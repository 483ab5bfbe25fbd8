# A build for 64-bit ARM on another Linux, run under qemu: tools/sysroot build-aarch64/sysroot, then
#   cmake -G Ninja -B build-aarch64 --toolchain tools/aarch64.cmake -DSWIFTLET_TESTS=ON -DSWIFTLET_CUDA=OFF
# QEMU_CPU in the environment chooses the processor that is played (qemu-aarch64 -cpu help).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(SWIFTLET_SYSROOT ${CMAKE_BINARY_DIR}/sysroot CACHE PATH "What tools/sysroot filled")
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES SWIFTLET_SYSROOT)
set(CMAKE_SYSROOT ${SWIFTLET_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${CMAKE_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${CMAKE_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L ${CMAKE_SYSROOT})
