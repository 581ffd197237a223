package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/millstream/millstream"
)

// S3Config names a bucket of S3 or of a compatible server.
type S3Config struct {
	Bucket, Region, Endpoint string
	AccessKey, SecretKey     string // empty: the SDK's own chain
	PathStyle                bool
	MultipartThreshold       int64         // objects at least this large go up in parts
	MaxConcurrency           int           // requests in flight, parts included
	OpTimeout                time.Duration // one try of one request; a Get's body may pause this long
}

// S3 is a Bucket in an S3-compatible object store. Requests are tried up to five times with exponential back-off and jitter.
type S3 struct {
	cfg    S3Config
	client *s3.Client
	slots  *semaphore.Weighted
	stream func(*s3.Options) // for requests whose body is read after the call: no bound on the whole, the body has its own
}

// partSize is the size of the parts of a multipart upload; with at most 10,000 parts, objects may reach 156 GiB.
const partSize = 16 << 20

// putIDKey is the object metadata that names the Put that made an object: after a lost reply the repeated request finds the key taken, and this tells whether by itself.
const putIDKey = "ms-put"

// NewS3 makes the client. It contacts nothing but, without static keys, the SDK's sources of credentials.
func NewS3(ctx context.Context, c S3Config) (*S3, error) {
	base := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { tune(t, c) }).WithTimeout(c.OpTimeout)
	opts := []func(*config.LoadOptions) error{
		config.WithRegion(c.Region),
		config.WithHTTPClient(base),
		config.WithRetryer(func() aws.Retryer {
			return retry.NewStandard(func(o *retry.StandardOptions) {
				o.MaxAttempts, o.MaxBackoff = 5, 5*time.Second
				o.RateLimiter = noLimit{}
				o.Retryables = append([]retry.IsErrorRetryable{retry.RetryableErrorCode{Codes: map[string]struct{}{"ConditionalRequestConflict": {}}}}, o.Retryables...)
			})
		}),
	}
	if c.AccessKey != "" {
		opts = append(opts, config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider(c.AccessKey, c.SecretKey, "")))
	}
	sdk, err := config.LoadDefaultConfig(ctx, opts...)
	if err != nil {
		return nil, fmt.Errorf("configure the S3 client: %w", err)
	}
	client := s3.NewFromConfig(sdk, func(o *s3.Options) {
		o.UsePathStyle = c.PathStyle
		o.DisableLogOutputChecksumValidationSkipped = true
		if c.Endpoint != "" {
			o.BaseEndpoint = aws.String(c.Endpoint)
		}
	})
	streaming := sdk.HTTPClient
	if b, ok := streaming.(*awshttp.BuildableClient); ok { // the SDK may have added an operator's own CA bundle to it
		streaming = b.WithTimeout(0)
	}
	return &S3{cfg: c, client: client, slots: semaphore.NewWeighted(int64(c.MaxConcurrency)), stream: func(o *s3.Options) { o.HTTPClient = streaming }}, nil
}

// noLimit turns off the SDK's client-side token bucket, which gives up retrying just when an outage is long.
type noLimit struct{}

func (noLimit) GetToken(context.Context, uint) (func() error, error) {
	return func() error { return nil }, nil
}
func (noLimit) AddTokens(uint) error { return nil }

func tune(t *http.Transport, c S3Config) {
	t.DialContext = (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	t.TLSHandshakeTimeout = 5 * time.Second
	t.ResponseHeaderTimeout = c.OpTimeout
	t.MaxIdleConnsPerHost = c.MaxConcurrency
}

// do runs one request under the concurrency bound.
func (s *S3) do(ctx context.Context, key string, f func(context.Context) error) error {
	if err := s.slots.Acquire(ctx, 1); err != nil {
		return err
	}
	defer s.slots.Release(1)
	return s3Error(key, f(ctx))
}

// wrongRangeTries is how often a range is asked for before an answer with another one is an error.
const wrongRangeTries = 3

// errWrongRange is an answer that does not say that it is the range that was asked for. Proxies and caches have been seen to give such.
var errWrongRange = errors.New("the answer is not the range that was asked for")

// Get implements Bucket.
func (s *S3) Get(ctx context.Context, key string, off, n int64) (r io.ReadCloser, err error) {
	if n == 0 {
		return io.NopCloser(strings.NewReader("")), nil
	}
	for range wrongRangeTries {
		if r, err = s.get(ctx, key, off, n); !errors.Is(err, errWrongRange) {
			return r, err
		}
	}
	return nil, millstream.Wrap(millstream.Unavailable, err, "the object store gave other bytes of %s than were asked for: what stands between it and this node?", key)
}

func (s *S3) get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	in := &s3.GetObjectInput{Bucket: &s.cfg.Bucket, Key: &key}
	switch {
	case n > 0:
		in.Range = aws.String(fmt.Sprintf("bytes=%d-%d", off, off+n-1))
	case off > 0:
		in.Range = aws.String(fmt.Sprintf("bytes=%d-", off))
	}
	if err := s.slots.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	own, cancel := context.WithCancel(ctx)
	out, err := s.client.GetObject(own, in, s.stream)
	if err != nil {
		cancel()
		s.slots.Release(1)
		var re *awshttp.ResponseError
		if errors.As(err, &re) && re.HTTPStatusCode() == http.StatusRequestedRangeNotSatisfiable {
			return s.emptyTail(ctx, key, off, n)
		}
		return nil, s3Error(key, err)
	}
	b := &s3Body{body: out.Body, key: key, left: aws.ToInt64(out.ContentLength), idle: s.cfg.OpTimeout, release: func() { cancel(); s.slots.Release(1) }}
	if in.Range != nil {
		if err := checkRange(out, key, off, n); err != nil {
			return nil, errors.Join(err, b.Close())
		}
	}
	b.timer = time.AfterFunc(b.idle, cancel)
	return b, nil
}

// checkRange compares an answer with the range that was asked for, [off, off+n), or from off to the end if n < 0. What is short because the object is says so itself,
// and is Invalid as any range outside of an object; every other difference is errWrongRange.
func checkRange(out *s3.GetObjectOutput, key string, off, n int64) error {
	said, length := aws.ToString(out.ContentRange), aws.ToInt64(out.ContentLength)
	var first, last, size int64
	if _, err := fmt.Sscanf(said, "bytes %d-%d/%d", &first, &last, &size); err != nil {
		return fmt.Errorf("%w: of object %s from %d, %d bytes, came %d bytes without a range (Content-Range %q)", errWrongRange, key, off, n, length, said)
	}
	want := size - 1
	if n > 0 {
		want = off + n - 1
	}
	switch {
	case first != off || length != last-first+1 || last >= size:
	case last == want:
		return nil
	case last < want && last == size-1:
		return outside(key, off, n, size)
	}
	return fmt.Errorf("%w: of object %s from %d, %d bytes, came %d bytes as %q", errWrongRange, key, off, n, length, said)
}

// emptyTail tells a read from exactly the end, which is empty, from one beyond it.
func (s *S3) emptyTail(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	st, err := s.Stat(ctx, key)
	if err != nil {
		return nil, err
	}
	if n < 0 && off == st.Size {
		return io.NopCloser(strings.NewReader("")), nil
	}
	return nil, outside(key, off, n, st.Size)
}

// s3Body is the body of a Get: it notices an early end, gives up when nothing arrives for the idle time, and frees its slot when closed.
type s3Body struct {
	body    io.ReadCloser
	key     string
	left    int64
	idle    time.Duration
	timer   *time.Timer
	release func()
}

func (b *s3Body) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	b.timer.Reset(b.idle)
	b.left -= int64(n)
	switch {
	case errors.Is(err, io.EOF) && b.left > 0:
		err = io.ErrUnexpectedEOF
	case err != nil && !errors.Is(err, io.EOF):
		err = millstream.Wrap(millstream.Unavailable, err, "reading object %s broke off", b.key)
	}
	return n, err
}

func (b *s3Body) Close() error {
	if b.release == nil {
		return nil
	}
	if b.timer != nil {
		b.timer.Stop()
	}
	err := b.body.Close()
	b.release()
	b.release = nil
	return err
}

// Put implements Bucket.
func (s *S3) Put(ctx context.Context, key string, r io.ReadSeeker, size int64) error {
	if err := CheckKey(key); err != nil {
		return err
	}
	end, err := r.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = r.Seek(0, io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("read the body of %s: %w", key, err)
	}
	if end != size {
		return shortBody(key, end, size)
	}
	id := uuid.NewString()
	if size >= s.cfg.MultipartThreshold {
		if ra, ok := r.(io.ReaderAt); ok {
			err = s.putParts(ctx, key, ra, size, id)
			return s.settle(ctx, key, id, err)
		}
	}
	err = s.do(ctx, key, func(ctx context.Context) error {
		_, err := s.client.PutObject(ctx, &s3.PutObjectInput{Bucket: &s.cfg.Bucket, Key: &key, Body: r, ContentLength: &size, IfNoneMatch: aws.String("*"), Metadata: map[string]string{putIDKey: id}})
		return err
	})
	return s.settle(ctx, key, id, err)
}

// settle turns "the key is taken" into success if this very Put took it: its reply was lost and the request repeated.
func (s *S3) settle(ctx context.Context, key, id string, err error) error {
	if millstream.KindOf(err) != millstream.Conflict {
		return err
	}
	head, herr := s.head(ctx, key)
	if herr != nil {
		return errors.Join(err, herr)
	}
	if head.Metadata[putIDKey] == id {
		return nil
	}
	return err
}

func (s *S3) head(ctx context.Context, key string) (out *s3.HeadObjectOutput, err error) {
	err = s.do(ctx, key, func(ctx context.Context) error {
		out, err = s.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &s.cfg.Bucket, Key: &key})
		return err
	})
	return out, err
}

// putParts uploads the object in parts, several at once; a failed upload is aborted so that its parts are not kept.
func (s *S3) putParts(ctx context.Context, key string, r io.ReaderAt, size int64, id string) error {
	var upload *s3.CreateMultipartUploadOutput
	err := s.do(ctx, key, func(ctx context.Context) (err error) {
		upload, err = s.client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: &s.cfg.Bucket, Key: &key, ChecksumAlgorithm: types.ChecksumAlgorithmCrc32, Metadata: map[string]string{putIDKey: id}})
		return err
	})
	if err != nil {
		return err
	}
	parts := make([]types.CompletedPart, (size+partSize-1)/partSize)
	g, gctx := errgroup.WithContext(ctx)
	for i := range parts {
		body := io.NewSectionReader(r, int64(i)*partSize, min(partSize, size-int64(i)*partSize))
		g.Go(func() error {
			return s.do(gctx, key, func(ctx context.Context) error {
				out, err := s.client.UploadPart(ctx, &s3.UploadPartInput{Bucket: &s.cfg.Bucket, Key: &key, UploadId: upload.UploadId, PartNumber: aws.Int32(int32(i + 1)), Body: body,
					ContentLength: aws.Int64(body.Size()), ChecksumAlgorithm: types.ChecksumAlgorithmCrc32})
				if err != nil {
					return err
				}
				parts[i] = types.CompletedPart{ETag: out.ETag, PartNumber: aws.Int32(int32(i + 1)), ChecksumCRC32: out.ChecksumCRC32}
				return nil
			})
		})
	}
	if err = g.Wait(); err == nil {
		err = s.do(ctx, key, func(ctx context.Context) error {
			_, err := s.client.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{Bucket: &s.cfg.Bucket, Key: &key, UploadId: upload.UploadId, IfNoneMatch: aws.String("*"),
				MultipartUpload: &types.CompletedMultipartUpload{Parts: parts}})
			return err
		})
	}
	if err != nil {
		abort, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.OpTimeout)
		defer cancel()
		_, _ = s.client.AbortMultipartUpload(abort, &s3.AbortMultipartUploadInput{Bucket: &s.cfg.Bucket, Key: &key, UploadId: upload.UploadId})
	}
	return err
}

// Swap implements Bucket.
func (s *S3) Swap(ctx context.Context, key string, body []byte, etag string) (string, error) {
	if err := CheckKey(key); err != nil {
		return "", err
	}
	id := uuid.NewString()
	in := &s3.PutObjectInput{Bucket: &s.cfg.Bucket, Key: &key, ContentLength: aws.Int64(int64(len(body))), Metadata: map[string]string{putIDKey: id}}
	if etag == "" {
		in.IfNoneMatch = aws.String("*")
	} else {
		in.IfMatch = &etag
	}
	var out *s3.PutObjectOutput
	err := s.do(ctx, key, func(ctx context.Context) (err error) {
		in.Body = strings.NewReader(string(body))
		out, err = s.client.PutObject(ctx, in)
		return err
	})
	switch millstream.KindOf(err) {
	case millstream.Conflict, millstream.NotFound: // IfMatch on a missing key answers 404
		if head, herr := s.head(ctx, key); herr == nil && head.Metadata[putIDKey] == id {
			return aws.ToString(head.ETag), nil
		}
		return "", conflict(key)
	}
	if err != nil {
		return "", err
	}
	return aws.ToString(out.ETag), nil
}

// Stat implements Bucket.
func (s *S3) Stat(ctx context.Context, key string) (Info, error) {
	out, err := s.head(ctx, key)
	if err != nil {
		return Info{}, err
	}
	return Info{Key: key, Size: aws.ToInt64(out.ContentLength), ETag: aws.ToString(out.ETag), Modified: aws.ToTime(out.LastModified)}, nil
}

// Delete implements Bucket.
func (s *S3) Delete(ctx context.Context, keys ...string) error {
	for len(keys) > 0 {
		n := min(len(keys), 1000) // the most that one request takes
		ids := make([]types.ObjectIdentifier, n)
		for i := range ids {
			ids[i].Key = &keys[i]
		}
		err := s.do(ctx, keys[0], func(ctx context.Context) error {
			out, err := s.client.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: &s.cfg.Bucket, Delete: &types.Delete{Objects: ids, Quiet: aws.Bool(true)}})
			if err != nil {
				return err
			}
			for _, e := range out.Errors {
				if aws.ToString(e.Code) != "NoSuchKey" {
					return fmt.Errorf("delete %s: %s %s", aws.ToString(e.Key), aws.ToString(e.Code), aws.ToString(e.Message))
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		keys = keys[n:]
	}
	return nil
}

// List implements Bucket.
func (s *S3) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		pages := s3.NewListObjectsV2Paginator(s.client, &s3.ListObjectsV2Input{Bucket: &s.cfg.Bucket, Prefix: &prefix})
		for pages.HasMorePages() {
			var page *s3.ListObjectsV2Output
			err := s.do(ctx, prefix, func(ctx context.Context) (err error) {
				page, err = pages.NextPage(ctx)
				return err
			})
			if err != nil {
				yield(Info{}, err)
				return
			}
			for _, o := range page.Contents {
				if !yield(Info{aws.ToString(o.Key), aws.ToInt64(o.Size), aws.ToString(o.ETag), aws.ToTime(o.LastModified)}, nil) {
					return
				}
			}
		}
	}
}

// s3Error gives an SDK error the kind our callers branch on.
func s3Error(key string, err error) error {
	var known *millstream.Error
	if err == nil || errors.As(err, &known) || errors.Is(err, context.Canceled) {
		return err
	}
	var coded interface{ ErrorCode() string }
	if errors.As(err, &coded) && coded.ErrorCode() == "NoSuchBucket" { // no object is missing: whoever finds one missing may act on it
		return millstream.Wrap(millstream.Unavailable, err, "the bucket that [object_store].bucket names does not exist: create it, or name another")
	}
	var re *awshttp.ResponseError
	if errors.As(err, &re) {
		switch re.HTTPStatusCode() {
		case http.StatusNotFound:
			return millstream.Wrap(millstream.NotFound, err, "object %s does not exist", key)
		case http.StatusPreconditionFailed:
			return millstream.Wrap(millstream.Conflict, err, "object %s exists or was changed", key)
		case http.StatusForbidden, http.StatusUnauthorized:
			return millstream.Wrap(millstream.Unavailable, err, "the object store refuses access to %s: check [object_store] access_key, secret_key and the bucket's policy", key)
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return millstream.Wrap(millstream.Timeout, err, "the object store did not answer in time for %s", key)
	}
	return millstream.Wrap(millstream.Unavailable, err, "the object store cannot be reached for %s", key)
}
