// Command before has effects in every process.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/exec"

	"github.com/fiber-go/fiber"
)

var file, _ = os.Create("log") // want `^os.Create before fiber.Main: every process of the program does it$`

var pid = os.Getpid()

func init() {
	fmt.Println("hello") // want `^fmt.Println before fiber.Main`
	log.SetFlags(0)
}

func main() {
	log.SetOutput(file)
	flag.Usage = func() { fmt.Println("usage") }
	verbose := flag.Bool("v", false, "")
	flag.Parse()
	if *verbose {
		fmt.Fprintln(os.Stderr, "starting") // which process says so is not known
	}
	if err := os.Remove("old"); err != nil { // want `^os.Remove before`
		log.Fatal(err)
	}
	fmt.Fprintln(os.Stderr, "starting") // want `^fmt.Fprintln before`
	println("starting")                 // want `^println before`
	os.Stdout.WriteString("starting")   // want `^\(\*os.File\).WriteString before`
	os.Stderr.Write(nil)                // want `^\(\*os.File\).Write before`
	file.WriteString("starting")
	net.Listen("tcp", ":80")   // want `^net.Listen before`
	exec.Command("true").Run() // want `^\(\*os/exec.Cmd\).Run before`
	if flag.NArg() > 0 {
		fmt.Println("no arguments, please")
		os.Exit(2)
	}
	switch os.Getenv("MODE") {
	case "version":
		fmt.Println("1.0")
		return
	case "serve":
		net.Listen("tcp", ":81")
	}
	fmt.Fprintln(log.Writer(), "logged")
	defer fmt.Println("never")
	go prepare() // want `^a goroutine before fiber.Main: every process of the program starts it$`
	prepare()
	log.Print("ready") //fiber:ignore before every process is to say so
	fiber.Main(run)
}

func prepare() {
	os.MkdirAll("data", 0o755) // want `^os.MkdirAll before`
	if os.Getenv("MODE") == "" {
		return
	}
	fmt.Println("prepared")
}

func run(ctx context.Context) error {
	fmt.Println(pid)
	return os.WriteFile("out", nil, 0o644)
}
