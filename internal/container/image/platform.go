package image

import "debug/elf"

// Platform is an operating system and a CPU, in Go's words: linux and amd64.
type Platform struct{ OS, Arch string }

func (p Platform) String() string { return p.OS + "/" + p.Arch }

// machines are the CPUs that Linux runs on, as an ELF file names them.
var machines = []struct {
	arch    string
	machine elf.Machine
	class   elf.Class
	order   elf.Data
	triplet string // Debian's name for the directory of its libraries
}{
	{"386", elf.EM_386, elf.ELFCLASS32, elf.ELFDATA2LSB, "i386-linux-gnu"},
	{"amd64", elf.EM_X86_64, elf.ELFCLASS64, elf.ELFDATA2LSB, "x86_64-linux-gnu"},
	{"arm", elf.EM_ARM, elf.ELFCLASS32, elf.ELFDATA2LSB, "arm-linux-gnueabihf"},
	{"arm64", elf.EM_AARCH64, elf.ELFCLASS64, elf.ELFDATA2LSB, "aarch64-linux-gnu"},
	{"loong64", elf.EM_LOONGARCH, elf.ELFCLASS64, elf.ELFDATA2LSB, "loongarch64-linux-gnu"},
	{"mips", elf.EM_MIPS, elf.ELFCLASS32, elf.ELFDATA2MSB, "mips-linux-gnu"},
	{"mipsle", elf.EM_MIPS, elf.ELFCLASS32, elf.ELFDATA2LSB, "mipsel-linux-gnu"},
	{"mips64", elf.EM_MIPS, elf.ELFCLASS64, elf.ELFDATA2MSB, "mips64-linux-gnuabi64"},
	{"mips64le", elf.EM_MIPS, elf.ELFCLASS64, elf.ELFDATA2LSB, "mips64el-linux-gnuabi64"},
	{"ppc64", elf.EM_PPC64, elf.ELFCLASS64, elf.ELFDATA2MSB, "powerpc64-linux-gnu"},
	{"ppc64le", elf.EM_PPC64, elf.ELFCLASS64, elf.ELFDATA2LSB, "powerpc64le-linux-gnu"},
	{"riscv64", elf.EM_RISCV, elf.ELFCLASS64, elf.ELFDATA2LSB, "riscv64-linux-gnu"},
	{"s390x", elf.EM_S390, elf.ELFCLASS64, elf.ELFDATA2MSB, "s390x-linux-gnu"},
}

// elfArch returns the CPU of an ELF file in Go's words.
func elfArch(h elf.FileHeader) string {
	for _, m := range machines {
		if m.machine == h.Machine && m.class == h.Class && m.order == h.Data {
			return m.arch
		}
	}
	return h.Machine.String()
}

// elfOS returns the operating system of an ELF file in Go's words. Linux has no mark of its own.
func elfOS(h elf.FileHeader) string {
	switch h.OSABI {
	case elf.ELFOSABI_NONE, elf.ELFOSABI_LINUX:
		return "linux"
	case elf.ELFOSABI_FREEBSD:
		return "freebsd"
	case elf.ELFOSABI_NETBSD:
		return "netbsd"
	case elf.ELFOSABI_OPENBSD:
		return "openbsd"
	case elf.ELFOSABI_SOLARIS:
		return "solaris"
	}
	return h.OSABI.String()
}

// triplet returns Debian's name for the platform of an ELF file, "" if it has none.
func triplet(h elf.FileHeader) string {
	arch := elfArch(h)
	for _, m := range machines {
		if m.arch == arch {
			return m.triplet
		}
	}
	return ""
}
