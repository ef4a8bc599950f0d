// NVRTC by g++: a program becomes a shared library whose bytes stand for the cubin. Each name expression gets
// an exported entry that unpacks the parameters of a launch.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

static const char kPrelude[] =
#include "prelude.inc"
    ;

struct Program {
  std::string text, name, image, log;
  std::map<std::string, std::string> headers;
  std::vector<std::string> expressions;
  bool compiled = false;
};
#define API(name, ...) extern "C" __attribute__((visibility("default"))) int name(__VA_ARGS__)
constexpr int kInvalidInput = 3, kInvalidOption = 5, kCompilation = 6;

static std::string read(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
static void write(const std::string &path, const std::string &text) {
  std::ofstream(path, std::ios::binary) << text;
}
static std::string environment(const char *name, const std::string &otherwise) {
  const char *value = getenv(name);
  return value && *value ? value : otherwise;
}
static std::string hash(const std::string &text) {  // FNV-1a of 128 bits
  unsigned __int128 h = (unsigned __int128)0x6c62272e07bb0142 << 64 | 0x62b821756295c58d;
  for (unsigned char c : text) h = (h ^ c) * ((unsigned __int128)1 << 88 | 0x13b);
  char digits[33];
  snprintf(digits, sizeof digits, "%016llx%016llx", (unsigned long long)(h >> 64), (unsigned long long)h);
  return digits;
}
static std::string quoted(const std::string &text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

// Names of the kernels declared `extern "C" __global__ void NAME(`, which need no name expression.
static std::vector<std::string> plain_kernels(const std::string &text) {
  std::vector<std::string> names;
  const std::string begin = "extern \"C\"";
  for (size_t at = text.find(begin); at != std::string::npos; at = text.find(begin, at)) {
    std::string word, last;
    bool kernel = false;
    int depth = 0;
    for (at += begin.size(); at < text.size() && !strchr(";{", text[at]); at++) {
      char c = text[at];
      if (depth == 0 && (isalnum(c) || c == '_')) { word += c; continue; }
      if (!word.empty()) kernel |= word == "__global__", last = word, word.clear();
      if (c == '(' && depth++ == 0 && kernel && last != "__launch_bounds__") break;
      if (c == ')') depth--;
    }
    if (kernel) names.push_back(last);
  }
  return names;
}
static std::string lowered(size_t expression) { return "ct_symbol_" + std::to_string(expression); }
static std::string entry(const std::string &symbol, std::string expression) {
  expression.erase(0, expression.find_first_not_of("& "));
  return "extern \"C\" __attribute__((visibility(\"default\"))) cusim::Symbol " + symbol + " = cusim::Entry<&" + expression +
         ">::symbol(\"" + expression + "\");\n";
}

// The options that mean something to g++; -1 for what is no option.
static int translate(std::vector<std::string> options, std::string &flags) {
  for (size_t i = 0; i < options.size(); i++) {
    std::string o = options[i];
    auto value = [&](const char *name) {  // of --name=value and --name value
      std::string prefix = name;
      if (o == prefix && i + 1 < options.size()) return o = options[++i], true;
      return o.rfind(prefix + "=", 0) == 0 && (o.erase(0, prefix.size() + 1), true);
    };
    if (o[0] != '-') return -1;
    if (value("--define-macro") || value("-D")) flags += " -D" + quoted(o);
    else if (value("--include-path") || value("-I")) flags += " -I" + quoted(o);
    else if (value("--gpu-architecture") || value("-arch"))
      flags += " -D__CUDA_ARCH__=" + std::to_string(atoi(o.c_str() + o.find('_') + 1) * 10);
    else if (value("--std") || value("-std")) flags += " -std=" + quoted(o);
    else if (!strncmp(o.c_str(), "-D", 2) || !strncmp(o.c_str(), "-I", 2)) flags += " " + quoted(o);
  }
  return 0;
}

API(nvrtcVersion, int *major, int *minor) { return *major = 13, *minor = 0, 0; }
API(nvrtcGetNumSupportedArchs, int *count) { return *count = 12, 0; }
API(nvrtcGetSupportedArchs, int *archs) {
  const int known[] = {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};
  return memcpy(archs, known, sizeof known), 0;
}
API(nvrtcCreateProgram, Program **program, const char *text, const char *name, int headers, const char *const *texts,
    const char *const *names) {
  if (!text) return kInvalidInput;
  *program = new Program{text, name ? name : "default_program", {}, {}, {}, {}};
  for (int i = 0; i < headers; i++) (*program)->headers[names[i]] = texts[i];
  return 0;
}
API(nvrtcDestroyProgram, Program **program) {
  delete *program;
  return *program = nullptr, 0;
}
API(nvrtcAddNameExpression, Program *program, const char *expression) {
  if (program->compiled) return 8;
  return program->expressions.push_back(expression), 0;
}
API(nvrtcGetLoweredName, Program *program, const char *expression, const char **name) {
  if (!program->compiled) return 9;
  static thread_local std::string result;
  for (size_t i = 0; i < program->expressions.size(); i++)
    if (program->expressions[i] == expression) return result = lowered(i), *name = result.c_str(), 0;
  return 10;
}
API(nvrtcCompileProgram, Program *program, int count, const char *const *options) {
  std::string text = "#line 1 \"" + program->name + "\"\n" + program->text + "\n";
  std::string flags = " -x c++ -w -O1 -std=c++17 -shared -fPIC -fno-math-errno -fno-gnu-unique -fno-semantic-interposition";
  if (translate({options, options + count}, flags)) return program->log = "nvrtc: error: invalid option", kInvalidOption;
  flags += " " + environment("CUSIM_CXXFLAGS", "");
  for (size_t i = 0; i < program->expressions.size(); i++) text += entry(lowered(i), program->expressions[i]);
  for (const std::string &kernel : plain_kernels(program->text)) text += entry("ct_symbol_" + kernel, kernel);

  std::string compiler = environment("CXX", "g++"), key = compiler + flags + kPrelude + text;
  for (auto &[name, header] : program->headers) key += name + header;
  std::string cache = environment("CUSIM_CACHE", "/tmp/cusim-cache-" + std::to_string(getuid()));
  mkdir(cache.c_str(), 0700);
  std::string kept = cache + "/" + hash(key) + ".so";
  program->compiled = true, program->log.clear();
  if (!(program->image = read(kept)).empty()) return 0;

  std::string folder = cache + "/build-XXXXXX";
  if (!mkdtemp(&folder[0])) return program->log = "nvrtc: cannot write to " + cache, kCompilation;
  for (auto &[name, header] : program->headers) {
    for (size_t at = name.find('/'); at != std::string::npos; at = name.find('/', at + 1))
      mkdir((folder + "/" + name.substr(0, at)).c_str(), 0700);
    write(folder + "/" + name, header);
  }
  write(folder + "/prelude.hpp", kPrelude);
  write(folder + "/program.cu", text);
  std::string in = quoted(folder), command = compiler + flags + " -I" + in + " -include " + in + "/prelude.hpp " + in +
      "/program.cu -o " + in + "/out.so -lm >" + in + "/log 2>&1";
  int status = system(command.c_str());
  program->log = read(folder + "/log"), program->image = read(folder + "/out.so");
  if (status == 0) rename((folder + "/out.so").c_str(), kept.c_str());
  if (system(("rm -rf " + in).c_str())) program->log += "cannot remove " + folder;
  return status ? kCompilation : 0;
}
API(nvrtcGetCUBINSize, Program *program, size_t *bytes) { return *bytes = program->image.size(), 0; }
API(nvrtcGetCUBIN, Program *program, char *out) { return memcpy(out, program->image.data(), program->image.size()), 0; }
API(nvrtcGetPTXSize, Program *program, size_t *bytes) { return nvrtcGetCUBINSize(program, bytes); }
API(nvrtcGetPTX, Program *program, char *out) { return nvrtcGetCUBIN(program, out); }
API(nvrtcGetProgramLogSize, Program *program, size_t *bytes) { return *bytes = program->log.size() + 1, 0; }
API(nvrtcGetProgramLog, Program *program, char *out) { return memcpy(out, program->log.c_str(), program->log.size() + 1), 0; }
extern "C" __attribute__((visibility("default"))) const char *nvrtcGetErrorString(int code) {
  static const char *const names[] = {
      "NVRTC_SUCCESS", "NVRTC_ERROR_OUT_OF_MEMORY", "NVRTC_ERROR_PROGRAM_CREATION_FAILURE", "NVRTC_ERROR_INVALID_INPUT",
      "NVRTC_ERROR_INVALID_PROGRAM", "NVRTC_ERROR_INVALID_OPTION", "NVRTC_ERROR_COMPILATION",
      "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE", "NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION",
      "NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION", "NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID"};
  return code >= 0 && code < 11 ? names[code] : "NVRTC_ERROR_INTERNAL_ERROR";
}
