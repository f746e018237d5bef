package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber"
)

// TestMain makes this test binary a Fiber program: the managers are processes
// of the same binary, which do their work in Init.
func TestMain(m *testing.M) {
	if err := fiber.Init(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := fiber.Shutdown(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// The published constants: gym/envs/classic_control/cartpole.py.
func TestConstants(t *testing.T) {
	require.Equal(t, 9.8, gravity)
	require.Equal(t, 1.0, massCart)
	require.Equal(t, 0.1, massPole)
	require.Equal(t, 0.5, halfLength)
	require.Equal(t, 10.0, force)
	require.Equal(t, 0.02, tau)
	require.Equal(t, 2.4, maxX)
	require.InDelta(t, 0.20943951023931953, maxTheta, 1e-16)
}

// The expected states are those of gym's CartPole in the same situations.
func TestTrajectories(t *testing.T) {
	right := func(int) int { return 1 }
	left := func(int) int { return 0 }
	alternating := func(i int) int { return i % 2 }
	still, moving := observation{}, observation{0.01, -0.02, 0.03, -0.04}
	for _, test := range []struct {
		name   string
		from   observation
		action func(i int) int
		states map[int]observation // by the number of steps
		length int                 // of the episode
	}{
		{"right", still, right, map[int]observation{
			1: {0, 0.1951219512195122, 0, -0.2926829268292683},
			2: {0.0039024390243902443, 0.3902439024390244, -0.005853658536585366, -0.5853658536585366},
			5: {0.03903233286065466, 0.9763639236140543, -0.05871948683251454, -1.4815325603291771},
			9: {0.14065097203306187, 1.7603811257683097, -0.21518604988500967, -2.777886494012814},
		}, 9},
		{"left", still, left, map[int]observation{
			1: {0, -0.1951219512195122, 0, 0.2926829268292683},
			9: {-0.14065097203306187, -1.7603811257683097, 0.21518604988500967, 2.777886494012814},
		}, 9},
		{"alternating", moving, alternating, map[int]observation{
			1:  {0.0096, -0.21553901710278936, 0.0292, 0.26199522377603923},
			2:  {0.005289219657944213, -0.020845786573834096, 0.03443990447552078, -0.0213365483416999},
			5:  {0.00010694663373226368, -0.2174911254213868, 0.039658310114393566, 0.30517192350775374},
			27: {-0.05743010740329215, -0.24813687469477763, 0.2160445408873944, 1.0023347872129735},
		}, 27},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := &CartPole{state: test.from}
			for i := range test.length {
				s, err := c.Step(t.Context(), test.action(i))
				require.NoError(t, err)
				require.Equal(t, i == test.length-1, s.Done, "step %d", i+1)
				require.Equal(t, 1.0, s.Reward)
				if want, ok := test.states[i+1]; ok {
					require.InDeltaSlice(t, want[:], s.Observation[:], 1e-12, "step %d", i+1)
				}
			}
			_, err := c.Step(t.Context(), 1)
			require.ErrorIs(t, err, errOver)
		})
	}
}

// The accelerations solve the equations of motion of a cart and a uniform rod
// without friction: the sum of the horizontal forces, and the sum of the
// moments about the hinge.
func TestEquationsOfMotion(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		o := observation{0, 0, rng.NormFloat64(), rng.NormFloat64()}
		push := force * rng.NormFloat64()
		x, theta := accelerations(o, push)
		sin, cos := math.Sincos(o[2])
		const m, l = massPole, halfLength
		require.InDelta(t, push, (massCart+m)*x+m*l*(theta*cos-o[3]*o[3]*sin), 1e-9)
		require.InDelta(t, m*l*gravity*sin, 4.0/3*m*l*l*theta+m*l*x*cos, 1e-9)
	}
}

// An episode ends exactly when the cart leaves its track or the pole leans by
// more than 12 degrees, to either side.
func TestTermination(t *testing.T) {
	degree := 2 * math.Pi / 360
	for _, test := range []struct {
		from observation
		done bool
	}{
		{observation{2.39, 0.4, 0, 0}, false},
		{observation{2.39, 0.6, 0, 0}, true},
		{observation{-2.39, -0.4, 0, 0}, false},
		{observation{-2.39, -0.6, 0, 0}, true},
		{observation{0, 0, 11.9 * degree, 4 * degree}, false},
		{observation{0, 0, 11.9 * degree, 6 * degree}, true},
		{observation{0, 0, -11.9 * degree, -4 * degree}, false},
		{observation{0, 0, -11.9 * degree, -6 * degree}, true},
		{observation{2.3, 10, 12.1 * degree, -10 * degree}, true},
	} {
		s, err := (&CartPole{state: test.from}).Step(t.Context(), 0)
		require.NoError(t, err)
		require.Equal(t, test.done, s.Done, "%v", test.from)
	}
}

func TestReset(t *testing.T) {
	c, err := NewCartPole(t.Context(), 7)
	require.NoError(t, err)
	_, err = c.Step(t.Context(), 1)
	require.ErrorIs(t, err, errOver, "before the first reset")
	seen := map[float64]bool{}
	for range 1000 {
		o, err := c.Reset(t.Context(), struct{}{})
		require.NoError(t, err)
		for _, x := range o {
			require.LessOrEqual(t, math.Abs(x), 0.05)
			seen[x] = true
		}
	}
	require.Len(t, seen, 4000)
}

// Both ways of playing see the same as one without managers.
func TestPlay(t *testing.T) {
	const n, steps = 3, 500
	want := 0
	for i := range n {
		c, _ := NewCartPole(t.Context(), 5+uint64(i))
		c.Reset(t.Context(), struct{}{})
		var seen observation
		for range steps {
			s, err := c.Step(t.Context(), action(seen))
			require.NoError(t, err)
			if seen = s.Observation; s.Done {
				want++
				seen, _ = c.Reset(t.Context(), struct{}{})
			}
		}
	}
	require.Greater(t, want, n)
	for name, play := range map[string]func(context.Context, []*fiber.Proxy[*CartPole], int) (int, error){
		"sync": playSync, "async": playAsync,
	} {
		t.Run(name, func(t *testing.T) {
			envs, end, err := start(t.Context(), n, 5)
			defer end()
			require.NoError(t, err)
			episodes, err := play(t.Context(), envs, steps)
			require.NoError(t, err)
			require.Equal(t, want, episodes)
		})
	}
}

func TestCommand(t *testing.T) {
	program := build(t)

	stdout, stderr, code := execute(t, program, "-steps", "200", "-environments", "2")
	require.Zero(t, code, stderr)
	require.Regexp(t, `^200 steps in each of 2 environments
Call       \d+\.\d{3} s  (\d+) episodes
CallAsync  \d+\.\d{3} s  (\d+) episodes
\d+\.\d times as fast\n$`, stdout)

	_, stderr, code = execute(t, program, "-h")
	require.Zero(t, code)
	require.Contains(t, stderr, "go run ./examples/async_manager")
	require.Contains(t, stderr, "-environments")

	_, stderr, code = execute(t, program, "-steps", "0")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "-steps 0")

	_, stderr, code = execute(t, program, "more")
	require.Equal(t, 1, code)
	require.Contains(t, stderr, `"more"`)
}

// build builds the real program.
func build(t *testing.T) (program string) {
	program = filepath.Join(t.TempDir(), "program")
	out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}

// execute runs the program and returns its output and exit code.
func execute(t *testing.T, program string, args ...string) (stdout, stderr string, code int) {
	cmd := exec.CommandContext(t.Context(), program, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		require.ErrorAs(t, err, new(*exec.ExitError))
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}
