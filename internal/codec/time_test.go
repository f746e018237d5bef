package codec_test

import (
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/stretchr/testify/require"

	"github.com/fiber-go/fiber/internal/codec"
)

// A time comes back with its zone's name and offset, and with its location if
// that has more zones.
func TestTimeKeepsItsZone(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	local := time.Local
	t.Cleanup(func() { time.Local = local })
	for _, time.Local = range []*time.Location{time.UTC, berlin, time.FixedZone("XYZ", 123)} {
		for _, at := range []time.Time{
			time.Date(2024, 1, 1, 0, 0, 0, 0, berlin), time.Date(2024, 7, 1, 0, 0, 0, 5, berlin),
			time.Date(2024, 1, 1, 0, 0, 0, 0, time.FixedZone("CET", 3600)), time.Date(2024, 1, 1, 0, 0, 0, 0, time.FixedZone("", 3600)),
			time.Date(2024, 1, 1, 0, 0, 0, 0, time.FixedZone("here and there", -7*3600-1)),
			time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2024, 1, 1, 0, 0, 0, 0, time.FixedZone("UTC", 0)),
			time.Date(2024, 1, 1, 0, 0, 0, 0, time.Local), {},
		} {
			for _, got := range []time.Time{trip(t, at).(time.Time), trip(t, []any{at}).([]any)[0].(time.Time)} {
				require.True(t, at.Equal(got))
				require.Equal(t, at.String(), got.String())
				require.Equal(t, at.AddDate(0, 6, 0).String(), got.AddDate(0, 6, 0).String())
				require.Equal(t, at.Location() == berlin, got.Location().String() == "Europe/Berlin" || berlin == time.Local && got.Location() == berlin)
			}
		}
	}
}

// If a location is unknown here, or has other zones, the time has the sender's
// zone.
func TestTimeOfAnotherLocation(t *testing.T) {
	local := time.Local
	t.Cleanup(func() { time.Local = local })
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	tokyo, err := time.LoadLocation("Asia/Tokyo")
	require.NoError(t, err)
	time.Local = berlin
	sent := time.Date(2024, 7, 1, 12, 0, 0, 0, time.Local)
	frames, err := codec.Marshal(sent)
	require.NoError(t, err)
	time.Local = tokyo
	var got time.Time
	require.NoError(t, codec.Unmarshal(frames, &got))
	require.Equal(t, sent.String(), got.String())

	// A second more than Berlin's.
	frames, err = codec.Marshal(time.Date(2024, 1, 1, 0, 0, 0, 0, berlin))
	require.NoError(t, err)
	frames[0][3+15] += 2 // of minutes, doubled
	require.NoError(t, codec.Unmarshal(frames, &got))
	require.Equal(t, "2024-01-01 00:00:01 +0100 CET", got.String())
}
