#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <string_view>

#include "standin.hpp"

namespace flotilla::standin {
namespace {

/// An image's bytes as text: a cubin or any other ELF file, or a fatbin, which holds cubins. Empty: none of them.
std::string_view extent(const char* image) {
  if (!std::memcmp(image, "\177ELF", 4)) {
    std::uint64_t sections = 0;
    std::uint16_t size = 0, count = 0;
    std::memcpy(&sections, image + 40, sizeof sections);
    std::memcpy(&size, image + 58, sizeof size);
    std::memcpy(&count, image + 60, sizeof count);
    return {image, sections + std::size_t{size} * count};
  }
  constexpr std::uint32_t fatbin = 0xBA55ED50u;
  std::uint32_t magic = 0;
  std::uint16_t header = 0;
  std::uint64_t size = 0;
  std::memcpy(&magic, image, sizeof magic);
  std::memcpy(&header, image + 6, sizeof header);
  std::memcpy(&size, image + 8, sizeof size);
  return magic == fatbin ? std::string_view{image, header + size} : std::string_view{};
}

/// A cubin has a section for each kernel; another ELF file has its name among its symbols.
bool names(std::string_view image, const std::string& kernel) {
  return image.find(".text." + kernel + '\0') != image.npos || image.find('\0' + kernel + '\0') != image.npos;
}

struct LibraryImpl {
  std::string_view image;
};

const HostKernel* host_kernels() {
  static const HostKernel* const list = []() -> const HostKernel* {
    const std::string path = setting("FLOTILLA_STANDIN_KERNELS", "");
    void* library = path.empty() ? nullptr : dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      std::fprintf(stderr, "stand-in driver: no kernels: %s\n", path.empty() ? "FLOTILLA_STANDIN_KERNELS is not set" : dlerror());
      return nullptr;
    }
    const auto symbol = reinterpret_cast<KernelList>(dlsym(library, kernel_list_symbol));
    return symbol ? symbol() : nullptr;
  }();
  return list;
}

const HostKernel* find_host_kernel(const std::string& name) {
  for (const HostKernel* kernel = host_kernels(); kernel && kernel->name; ++kernel)
    if (name == kernel->name) return kernel;
  return nullptr;
}

/// One launch's arguments, copied when it is enqueued, with pointers as the host follows them.
struct Arguments {
  std::vector<std::vector<char>> values;
  std::vector<void*> places() {
    std::vector<void*> all;
    for (auto& value : values) all.push_back(value.data());
    return all;
  }
};

/// A pointer that is not the device's would be followed there: an error that sticks.
bool copy_arguments(const KernelImpl& kernel, void** from, Arguments& to) {
  int index = 0;
  for (const Argument& argument : kernel.host->arguments) {
    const char* bytes = static_cast<const char*>(from[index]);
    std::vector<char> value(bytes, bytes + argument.size);
    if (argument.pointer) {
      void* p = nullptr;
      std::memcpy(&p, value.data(), sizeof p);
      if (p && !allocated(p, 1)) {
        std::fprintf(stderr, "stand-in driver: argument %d of %s is no pointer into a device's memory\n", index, kernel.name.c_str());
        return false;
      }
      p = p ? host_view(p) : p;
      std::memcpy(value.data(), &p, sizeof p);
    }
    to.values.push_back(std::move(value));
    ++index;
  }
  return true;
}

[[noreturn]] void hang() {
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

}  // namespace
}  // namespace flotilla::standin

namespace flotilla::gpu::driver {

using namespace standin;

/// Bytes that every kernel takes beside what a launch asks for.
constexpr int static_shared = 1024;

Result cuLibraryLoadData(Library* library, const void* image, void*, void**, unsigned, void*, void**, unsigned) {
  const std::string_view bytes = extent(static_cast<const char*>(image));
  if (bytes.empty()) return invalid_value;
  *library = reinterpret_cast<Library>(new LibraryImpl{bytes});
  return success;
}

Result cuLibraryUnload(Library library) {
  delete reinterpret_cast<LibraryImpl*>(library);
  return success;
}

Result cuLibraryGetKernel(Kernel* handle, Library library, const char* name) {
  static std::mutex mutex;
  static auto& kernels = *new std::map<std::string, std::unique_ptr<KernelImpl>>;  // streams run them also while the process ends
  const HostKernel* host = find_host_kernel(name);
  if (!names(reinterpret_cast<LibraryImpl*>(library)->image, name) || !host) return not_found;
  const std::lock_guard lock{mutex};
  auto& kernel = kernels[name];
  if (!kernel) kernel = std::make_unique<KernelImpl>(KernelImpl{host, name});
  *handle = reinterpret_cast<Kernel>(kernel.get());
  return success;
}

Result cuKernelGetFunction(Function* function, Kernel kernel) {
  *function = reinterpret_cast<Function>(kernel);
  return success;
}

Result cuKernelGetAttribute(int* value, int attribute, Kernel, DeviceOrdinal device) {
  if (attribute != kernel_static_shared) return not_supported;
  if (device < 0 || device >= device_count()) return invalid_device;
  *value = static_shared;
  return success;
}

Result cuKernelSetAttribute(int attribute, int value, Kernel kernel, DeviceOrdinal device) {
  if (attribute != kernel_max_dynamic_shared) return not_supported;
  if (device < 0 || device >= device_count()) return invalid_device;
  if (value + static_shared > device_types()[static_cast<std::size_t>(device)]->shared_per_block) return invalid_value;
  reinterpret_cast<KernelImpl*>(kernel)->dynamic_shared = value;
  return success;
}

Result cuLaunchKernel(Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned x, unsigned y, unsigned z,
                      unsigned shared, Stream handle, void** parameters, void** extra) {
  const auto stream = find_stream(handle);
  KernelImpl* kernel = reinterpret_cast<KernelImpl*>(function);
  const std::uint64_t threads = std::uint64_t{x} * y * z;
  const bool possible = stream && !extra && threads > 0 && threads <= 1024 && grid_x > 0 && grid_y > 0 && grid_y < 65536 && grid_z > 0 &&
                        grid_z < 65536 && shared <= static_cast<unsigned>(kernel->dynamic_shared);
  if (!possible) return invalid_value;
  if (const Result before = stuck()) return before;
  const Result result = fault(Kind::launch);
  if (result != success && result < illegal_address) return result;
  Arguments arguments;
  if (!copy_arguments(*kernel, parameters, arguments)) {
    stick(illegal_address);
    return success;  // a device tells of it later
  }
  const HostLaunch launch{{grid_x, grid_y, grid_z}, {x, y, z}, shared};
  const bool endless = happens(Kind::hang);
  stream->add([=]() mutable {
    if (endless) hang();
    kernel->host->run(launch, arguments.places().data());
  });
  return success;
}

}  // namespace flotilla::gpu::driver
